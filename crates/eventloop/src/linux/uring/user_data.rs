//! User data for ring operations: operation, slot and generation, packed into 64 bits.

use crate::token::Token;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Receive on a connection.
    Receive = 0,
    /// Wait until a connection has room to send.
    PollWritable = 1,
    /// Accept from a listener. The slot is the listener's number.
    Accept = 2,
    /// Wait until another thread wakes us up.
    PollWaker = 3,
    /// Cancel another operation.
    Cancel = 4,
    /// Wait for datagrams. The slot is the socket's number.
    PollDatagrams = 5,
    /// Wait until a datagram socket has room to send. The slot is the socket's number.
    PollRoom = 6,
}

/// Bits of a generation that fit next to the operation. To confuse two generations, a slot would have to be reused 2^29 times
/// between an operation and its completion.
const GENERATION_BITS: u32 = (1 << 29) - 1;

impl Operation {
    pub(super) fn pack(self, owner: Token) -> u64 {
        let generation = owner.generation & GENERATION_BITS | (self as u32) << 29;
        Token { generation, ..owner }.pack()
    }

    /// Unpacks an operation and its token. The generation is truncated.
    pub(super) fn unpack(user_data: u64) -> (Operation, Token) {
        let token = Token::unpack(user_data);
        let operation = match token.generation >> 29 {
            0 => Operation::Receive,
            1 => Operation::PollWritable,
            2 => Operation::Accept,
            3 => Operation::PollWaker,
            5 => Operation::PollDatagrams,
            6 => Operation::PollRoom,
            _ => Operation::Cancel,
        };
        (operation, Token { generation: token.generation & GENERATION_BITS, ..token })
    }
}

/// Returns `true` if a generation matches a truncated one.
pub(super) fn is_same_generation(whole: u32, truncated: u32) -> bool {
    whole & GENERATION_BITS == truncated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_operation_unpacks() {
        let operations = [
            Operation::Receive,
            Operation::PollWritable,
            Operation::Accept,
            Operation::PollWaker,
            Operation::Cancel,
            Operation::PollDatagrams,
            Operation::PollRoom,
        ];
        for operation in operations {
            let token = Token { slot: u32::MAX - 1, generation: u32::MAX - 5 };
            let (unpacked, truncated) = Operation::unpack(operation.pack(token));
            assert_eq!((unpacked, truncated.slot), (operation, token.slot));
            assert!(is_same_generation(token.generation, truncated.generation));
            assert!(!is_same_generation(token.generation + 1, truncated.generation));
        }
    }
}
