//! Numbers from a seed: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! 2014), which needs no more than a counter.

/// Numbers from a seed: the same seed, the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap_or(0)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A size from 1 to `max`, which is not 0: often very small, often all of it, else anything between.
    pub fn size(&mut self, max: usize) -> usize {
        match self.below(4) {
            0 => 1 + self.below(max.min(3)),
            1 => max,
            _ => 1 + self.below(max),
        }
    }
}
