//! Tokens: a connection's slot and its generation, packed into 64 bits.
//!
//! When a connection is closed, its slot will be reused. However, there may still be events for the old connection, and we need to
//! avoid attributing them to the new one. To tell them apart, each has its own generation.

/// Identifies the connection that an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Index of the slot.
    pub slot: u32,
    /// Number of times the slot was reused.
    pub generation: u32,
}

/// The loop itself uses slots from here on, for listeners and the waker.
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
