//! Pseudorandom numbers, using SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). The
//! state is just a counter.

/// Generates pseudorandom numbers. The same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns a random 64-bit number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`. `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).expect("less than `end`, which is a `usize`")
    }

    /// Returns `true` with probability 1/`count`.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns `true` with this probability, from 0 to 1.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Returns a number from 0 up to but not including 1.
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.number() >> 32).expect("32 bits");
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// Returns a size from 1 to `max` (which must not be 0). Tiny sizes and `max` itself are frequent.
    pub fn size(&mut self, max: usize) -> usize {
        match self.below(4) {
            0 => 1 + self.below(max.min(3)),
            1 => max,
            _ => 1 + self.below(max),
        }
    }
}
