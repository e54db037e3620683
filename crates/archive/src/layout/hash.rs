//! The hash function of constant databases, as defined by D. J. Bernstein.
//!
//! Chosen collisions are possible. This is acceptable because keys are chosen by the site's author rather than by clients.

/// A hash computed byte by byte: `hash = hash * 33 ^ byte`, starting at 5381.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// The hash of the empty string.
    pub const EMPTY: Hash = Hash(5381);

    /// Computes the hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::EMPTY.extend(bytes)
    }

    /// Continues the hash with one byte.
    #[must_use]
    #[inline]
    pub const fn push(self, byte: u8) -> Hash {
        Hash((self.0 << 5).wrapping_add(self.0) ^ byte as u64)
    }

    /// Continues the hash with `bytes`.
    #[must_use]
    #[inline]
    pub fn extend(self, bytes: &[u8]) -> Hash {
        bytes.iter().fold(self, |hash, byte| hash.push(*byte))
    }

    /// Returns the 64-bit hash, as stored by `cdb64`.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_published_function() {
        // Compute the 32-bit hash of "one" step by step, as in the CDB specification.
        let step = |hash: u32, byte: u8| hash.wrapping_mul(33) ^ u32::from(byte);
        let expected = b"one".iter().fold(5381, |hash, byte| step(hash, *byte));
        assert_eq!(crate::Format::Cdb.stored_hash(Hash::of(b"one")), u64::from(expected));
    }

    #[test]
    fn narrow_hash_is_lower_half_of_wide_hash() {
        let key: Vec<u8> = (0..200).collect();
        let narrow = key.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(*byte));
        assert_eq!(crate::Format::Cdb.stored_hash(Hash::of(&key)), u64::from(narrow));
        assert_eq!(u32::try_from(Hash::of(&key).value() & 0xffff_ffff).unwrap(), narrow);
    }
}
