//! Tokens: the slot of a connection and the generation of its owner, packed into 64 bits.
//!
//! A slot is reused after its connection is closed. An event fetched before that must not be attributed to the new
//! connection: its generation differs.

/// Identifies the connection that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The index of the slot.
    pub slot: u32,
    /// Counts the owners of the slot.
    pub generation: u32,
}

/// Slots from this one on belong to the loop: listeners and the waker.
pub(crate) const SLOT_MAX: u32 = u32::MAX - 256;

impl Token {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn unpack(bits: u64) -> Token {
        let [a, b, c, d, e, f, g, h] = bits.to_le_bytes();
        Token { slot: u32::from_le_bytes([a, b, c, d]), generation: u32::from_le_bytes([e, f, g, h]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_token_unpacks() {
        let token = Token { slot: 0x0102_0304, generation: 0xfffe_fdfc };
        assert_eq!(Token::unpack(token.pack()), token);
    }
}
