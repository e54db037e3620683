//! Latencies of many requests, and their percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::metric::PERCENTILES;
use crate::results::{Sample, median};

/// How long each request of a run took.
pub(crate) struct Latencies {
    /// Sorted.
    all: Vec<Duration>,
    /// Sorted, by the second in which the request was scheduled.
    by_second: BTreeMap<u64, Vec<Duration>>,
}

impl Latencies {
    /// Collects latencies, each with the time from the start of the run at which its request was scheduled.
    pub(crate) fn new(requests: impl IntoIterator<Item = (Duration, Duration)>) -> Latencies {
        let mut all = Vec::new();
        let mut by_second = BTreeMap::<_, Vec<_>>::new();
        for (scheduled, latency) in requests {
            all.push(latency);
            by_second.entry(scheduled.as_secs()).or_default().push(latency);
        }

        all.sort_unstable();
        by_second.values_mut().for_each(|latencies| latencies.sort_unstable());
        Latencies { all, by_second }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the 50th, 90th, 99th and 99.9th percentile and the maximum, in microseconds.
    pub(crate) fn percentiles(&self) -> [f64; 5] {
        [500, 900, 990, 999, 1000].map(|permille| percentile(&self.all, permille))
    }

    /// Returns the percentiles with their metrics.
    pub(crate) fn sample(&self) -> Sample {
        PERCENTILES.into_iter().zip(self.percentiles()).collect()
    }

    /// Returns the median of the 99th percentiles of all seconds, in microseconds.
    pub(crate) fn p99_of_median_second(&self) -> f64 {
        median(self.by_second.values().map(|latencies| percentile(latencies, 990)).collect())
    }

    /// Returns the number of requests that took longer than `bound`.
    pub(crate) fn count_above(&self, bound: Duration) -> usize {
        self.all.iter().filter(|latency| **latency > bound).count()
    }
}

/// Returns the smallest latency that `permille` of the sorted latencies don't exceed, in microseconds.
fn percentile(sorted: &[Duration], permille: usize) -> f64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1) - 1;
    sorted.get(rank).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let latencies = (1..=200).rev().map(|us| (Duration::ZERO, Duration::from_micros(us)));
        let latencies = Latencies::new(latencies);
        assert_eq!(latencies.percentiles().map(f64::round), [100.0, 180.0, 198.0, 200.0, 200.0]);
        assert_eq!(latencies.count_above(Duration::from_micros(190)), 10);
        assert!(Latencies::new([]).percentiles()[0].is_nan());
    }

    #[test]
    fn one_noisy_second_does_not_change_the_median_second() {
        let requests = (0..3000).map(|number| {
            let latency = if number / 1000 == 1 { 9000 } else { 10 + number / 1000 };
            (Duration::from_millis(number), Duration::from_micros(latency))
        });
        let latencies = Latencies::new(requests);
        assert_eq!(latencies.percentiles()[2].round(), 9000.0);
        assert_eq!(latencies.p99_of_median_second().round(), 12.0);
    }
}
