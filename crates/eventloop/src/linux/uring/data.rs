//! What a completion belongs to: an operation, and the slot and generation of its owner, in 64 bits.

use crate::token::Token;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// To receive on a connection.
    Receive = 0,
    /// To tell when there is room to send on it.
    Room = 1,
    /// To accept at a listener; the slot is its number.
    Accept = 2,
    /// To tell when another thread knocks.
    Knock = 3,
    /// To end another operation.
    Cancel = 4,
}

/// Bits of a generation that fit beside the operation. A slot has to change its owner so many times between a call
/// and its completion before one is taken for the other.
const GENERATION: u32 = (1 << 29) - 1;

impl Operation {
    /// The data of this operation for an owner.
    pub(super) fn pack(self, token: Token) -> u64 {
        let generation = token.generation & GENERATION | (self as u32) << 29;
        Token { generation, ..token }.pack()
    }

    /// The operation and its owner, of whose generation only some bits are left.
    pub(super) fn unpack(data: u64) -> (Operation, Token) {
        let token = Token::unpack(data);
        let operation = match token.generation >> 29 {
            0 => Operation::Receive,
            1 => Operation::Room,
            2 => Operation::Accept,
            3 => Operation::Knock,
            _ => Operation::Cancel,
        };
        (operation, Token { generation: token.generation & GENERATION, ..token })
    }
}

/// Whether these are the same owner, as far as can be told.
pub(super) fn is_same_generation(whole: u32, cut: u32) -> bool {
    whole & GENERATION == cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let operations =
            [Operation::Receive, Operation::Room, Operation::Accept, Operation::Knock, Operation::Cancel];
        for operation in operations {
            let token = Token { slot: u32::MAX - 1, generation: u32::MAX - 5 };
            let (back, cut) = Operation::unpack(operation.pack(token));
            assert_eq!((back, cut.slot), (operation, token.slot));
            assert!(is_same_generation(token.generation, cut.generation));
            assert!(!is_same_generation(token.generation + 1, cut.generation));
        }
    }
}
