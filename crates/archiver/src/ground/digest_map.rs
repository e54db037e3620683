//! Hash maps with digests as keys.
//!
//! Digests are uniformly distributed, so there is no need to hash them again. This matters because
//! builds look up tens of thousands of them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cannery_archive::Digest;

/// A map with keys that start with a digest.
pub(crate) type DigestMap<V, K = Digest> = HashMap<K, V, BuildHasherDefault<DigestHasher>>;

/// A set of digests.
pub(crate) type DigestSet = HashSet<Digest, BuildHasherDefault<DigestHasher>>;

/// Hashes the first eight bytes of a digest, and numbers such as its length.
#[derive(Debug, Default)]
pub(crate) struct DigestHasher(u64);

impl DigestHasher {
    fn add(&mut self, word: u64) {
        // From the golden ratio's fractional part, as in Fibonacci hashing.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut word = [0; 8];
        let length = bytes.len().min(word.len());
        word[..length].copy_from_slice(&bytes[..length]);
        self.add(u64::from_ne_bytes(word));
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_with_the_same_beginning_are_distinct() {
        let mut one = Digest([7; Digest::BYTES]);
        let other = one;
        one.0[31] = 8;
        let map: DigestMap<u8> = [(one, 1), (other, 2)].into_iter().collect();
        assert_eq!((map[&one], map[&other]), (1, 2));
    }
}
