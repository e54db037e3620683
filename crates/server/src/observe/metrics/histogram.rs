//! Latency histogram. Buckets get larger as the duration grows, but relative to the duration, they are never
//! wider than an eighth.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Counter;

/// Buckets for each doubling of the duration.
const STEPS: u32 = 8;
/// Doublings covered, from one microsecond to more than a minute.
const DOUBLINGS: u32 = 26;
const BUCKETS: usize = (STEPS * (DOUBLINGS + 1)) as usize;

/// Counts requests by duration.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [Counter; BUCKETS],
    /// Sum of all durations, in nanoseconds.
    nanoseconds: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| Counter::default()), nanoseconds: Counter::default() }
    }
}

impl Histogram {
    /// Counts `requests` requests, each of which took `took`.
    #[inline]
    pub(crate) fn add(&self, took: Duration, requests: u64) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(microseconds)].add(requests);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.add(nanoseconds.saturating_mul(requests));
    }

    /// Adds these counts to `counts`. Returns the sum of the durations in nanoseconds.
    pub(super) fn read(&self, counts: &mut Counts) -> u64 {
        counts.0.iter_mut().zip(&self.buckets).for_each(|(sum, bucket)| *sum += bucket.get());
        self.nanoseconds.get()
    }
}

/// Maps a duration in microseconds to its bucket. The index consists of the number of doublings,
/// followed by the three bits after the leading one.
fn bucket_of(microseconds: u64) -> usize {
    let value = microseconds.clamp(1, (1 << (DOUBLINGS + 1)) - 1);
    let doublings = value.ilog2();
    let step = if doublings >= 3 { value >> (doublings - 3) & 7 } else { value << (3 - doublings) & 7 };
    usize::try_from(u64::from(doublings * STEPS) + step).unwrap_or(BUCKETS - 1)
}

/// Returns the upper bound of a bucket, in microseconds.
fn upper_bound(bucket: usize) -> f64 {
    let doublings = bucket / STEPS as usize;
    let step = bucket % STEPS as usize;
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let factor = (STEPS as usize + step + 1) as f64 / f64::from(STEPS);
    factor * f64::from(1u32 << doublings.min(31))
}

/// Counts of a histogram (or the sum of several) at some moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub(crate) struct Counts([u64; BUCKETS]);

impl Default for Counts {
    fn default() -> Self {
        Counts([0; BUCKETS])
    }
}

impl From<Counts> for Vec<u64> {
    fn from(counts: Counts) -> Vec<u64> {
        counts.0.into()
    }
}

impl TryFrom<Vec<u64>> for Counts {
    type Error = &'static str;

    fn try_from(buckets: Vec<u64>) -> Result<Counts, Self::Error> {
        // With this bound, the sum of all buckets cannot overflow.
        if buckets.iter().any(|count| *count > u64::MAX >> 16) {
            return Err("a count is out of range");
        }
        buckets.try_into().map(Counts).map_err(|_| "the number of buckets differs")
    }
}

impl Counts {
    pub(super) fn merge(&mut self, other: &Counts) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of requests that took at most `seconds`, with the resolution of the
    /// buckets.
    pub(crate) fn up_to(&self, seconds: f64) -> u64 {
        let ends = (0..BUCKETS).map(upper_bound);
        ends.zip(self.0).filter(|(end, _)| *end <= seconds * 1e6).map(|(_, count)| count).sum()
    }

    /// Estimates a quantile of the durations in seconds, with `part` from 0 to 1. Without any requests, this
    /// is 0.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = (self.total() as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_bound(bucket) / 1e6;
            }
        }
        0.0
    }

    /// Returns the counts that were added since `before`.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        Counts(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(before.0[bucket])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bound_is_close_to_each_duration() {
        for microseconds in (1..4096).chain([1 << 20, (1 << 20) + 12_345, 60_000_000]) {
            let end = upper_bound(bucket_of(microseconds));
            #[allow(clippy::cast_precision_loss)]
            let value = microseconds as f64;
            assert!(value < end && end <= value * 1.25 + 1.0, "{microseconds}: {end}");
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_match_counted_durations() {
        let histogram = Histogram::default();
        histogram.add(Duration::from_micros(10), 98);
        histogram.add(Duration::from_millis(10), 2);
        let mut counts = Counts::default();
        assert_eq!(histogram.read(&mut counts), 98 * 10_000 + 2 * 10_000_000);
        assert_eq!(counts.total(), 100);
        assert!((9e-6..13e-6).contains(&counts.quantile(0.5)), "{}", counts.quantile(0.5));
        assert!((9e-3..13e-3).contains(&counts.quantile(0.99)));
        assert_eq!(counts.up_to(0.001), 98);
        assert_eq!(Counts::default().quantile(0.5), 0.0);
    }
}
