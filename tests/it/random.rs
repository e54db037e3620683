//! Pseudorandom numbers that are the same on every machine, so that a failing seed can be run again.

/// The generator xorshift64.
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator with the sequence of this seed.
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of consecutive seeds are similar.
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Returns an index into a slice of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("an index fits")
    }
}

/// Returns bytes that cannot be compressed.
pub(crate) fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| u8::try_from(random.below(256)).expect("it is below 256")).collect()
}

/// Returns random letters, which take long to compress.
pub(crate) fn letters(count: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    (0..count).map(|_| b'a' + u8::try_from(random.below(16)).expect("it is below 16")).collect()
}
