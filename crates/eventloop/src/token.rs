//! What an event belongs to: a slot and its owner's generation, packed in 64 bits.
//!
//! An event that was fetched before its connection was closed must not be taken for one of the
//! connection that has the slot now: the generations differ.

/// What an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The slot.
    pub slot: u32,
    /// Which owner of the slot.
    pub generation: u32,
}

/// Slots from here on are the loop's own: listeners and the waker.
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
    fn tokens_survive_packing() {
        let token = Token { slot: 0x0102_0304, generation: 0xfffe_fdfc };
        assert_eq!(Token::unpack(token.pack()), token);
    }
}
