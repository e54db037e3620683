//! The hash of a key, as D. J. Bernstein's page defines it.
//!
//! Not made to withstand keys that somebody chose to collide: the keys are the site's own.

/// The hash of a key, one byte at a time: `hash = hash * 33 ^ byte`, from 5381.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// The hash of no bytes.
    pub const EMPTY: Hash = Hash(5381);

    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::EMPTY.extend(bytes)
    }

    /// The hash of what was hashed so far and one more byte.
    #[must_use]
    #[inline]
    pub const fn push(self, byte: u8) -> Hash {
        Hash((self.0 << 5).wrapping_add(self.0) ^ byte as u64)
    }

    /// The hash of what was hashed so far and `bytes`.
    #[must_use]
    #[inline]
    pub fn extend(self, bytes: &[u8]) -> Hash {
        bytes.iter().fold(self, |hash, byte| hash.push(*byte))
    }

    /// The 64 bits, as cdb64 stores them.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // The 32-bit hash of "one" in the samples of the CDB page: 5381 through three steps.
        let step = |hash: u32, byte: u8| hash.wrapping_mul(33) ^ u32::from(byte);
        let expected = b"one".iter().fold(5381, |hash, byte| step(hash, *byte));
        assert_eq!(crate::Format::Cdb.stored_hash(Hash::of(b"one")), u64::from(expected));
    }

    #[test]
    fn the_narrow_hash_is_the_lower_half_of_the_wide_one() {
        let key: Vec<u8> = (0..200).collect();
        let narrow = key.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(*byte));
        assert_eq!(crate::Format::Cdb.stored_hash(Hash::of(&key)), u64::from(narrow));
        assert_eq!(u32::try_from(Hash::of(&key).value() & 0xffff_ffff).unwrap(), narrow);
    }
}
