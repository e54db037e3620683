//! Performance promises: a ratio of two medians of one run, or a bound.
//!
//! They are in `scenarios.toml`; the page shows a verdict for each.

use serde::Deserialize;

use crate::metric::Metric;
use crate::results::Results;

/// A promise about Cannery at one step of a scenario. Smaller values are better.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promise {
    /// The promise in words.
    pub(crate) promise: String,
    pub(crate) step: String,
    #[serde(default = "cpu_us")]
    metric: Metric,

    // Exactly one of the following is present.
    at_most: Option<AtMost>,
    better: Option<Better>,
    /// Better than each of these servers.
    better_than_all: Option<Vec<String>>,
    /// At most this value.
    below: Option<f64>,
    above: Option<Above>,
    /// Several threads reach at least this share of linear scaling; for scenarios with steps that differ by threads.
    linear: Option<f64>,
    no_errors: Option<NoErrors>,
}

/// At most `times` another server's value.
#[derive(Debug, Deserialize)]
struct AtMost {
    times: f64,
    of: String,
}

/// Another server's value is at least `times` Cannery's.
#[derive(Debug, Deserialize)]
struct Better {
    times: f64,
    than: String,
}

/// At most `by` above Cannery's value at another step.
#[derive(Debug, Deserialize)]
struct Above {
    step: String,
    by: f64,
}

/// Cannery was measured without an error.
#[derive(Debug, Deserialize)]
struct NoErrors {}

fn cpu_us() -> Metric {
    Metric::CpuUs
}

/// Whether a promise is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Kept,
    Missed,
    /// A promise about threads that were busy for less than [`BUSY_MIN`]: the busy share.
    Undecided(f64),
}

pub(crate) const OURS: &str = "cannery";
pub(crate) const FLOOR: &str = "floor";

/// The step that scaling is compared with.
const ONE_THREAD: &str = "1";

/// The busy share that threads need for a verdict on scaling.
///
/// A server that waits for its load generator wakes up for fewer requests at a time and pays more for each. The floor's
/// processes share no memory, and still lose 7 % at a share of 80 %, which is more than such a promise allows.
pub(crate) const BUSY_MIN: f64 = 0.9;

impl Promise {
    /// Returns the verdict with the value that decides it, or `None` if a value is missing.
    pub(crate) fn verdict(&self, results: &Results) -> Option<(Verdict, f64)> {
        let value_of = |step: &str, series: &str| results.get(step, series, self.metric);
        if results.get(&self.step, OURS, Metric::Errors).is_some() {
            return Some((Verdict::Missed, f64::NAN));
        }
        let ours = value_of(&self.step, OURS)?;

        let (value, is_kept) = if let Some(AtMost { times, of }) = &self.at_most {
            let ratio = ours / value_of(&self.step, of)?;
            (ratio, ratio <= *times)
        } else if let Some(Better { times, than }) = &self.better {
            let ratio = value_of(&self.step, than)? / ours;
            (ratio, ratio >= *times)
        } else if let Some(servers) = &self.better_than_all {
            let values = servers.iter().filter_map(|server| value_of(&self.step, server));
            let least = values.min_by(f64::total_cmp)?;
            (least / ours, least > ours)
        } else if let Some(bound) = self.below {
            (ours, ours <= bound)
        } else if let Some(Above { step, by }) = &self.above {
            let difference = ours - value_of(step, OURS)?;
            (difference, difference <= *by)
        } else if let Some(share) = self.linear {
            let ratio = ours / value_of(ONE_THREAD, OURS)?;
            (ratio, ratio <= 1.0 / share)
        } else {
            (0.0, true)
        };

        let busy = |step: &str| results.get(step, OURS, Metric::Busy);
        let verdict = match (self.linear, busy(&self.step), busy(ONE_THREAD)) {
            (Some(_), Some(many), Some(one)) if many.min(one) < BUSY_MIN => Verdict::Undecided(many.min(one)),
            _ if is_kept => Verdict::Kept,
            _ => Verdict::Missed,
        };
        Some((verdict, value))
    }

    /// Formats the deciding value with its unit, and for scaling with the floor's.
    pub(crate) fn describe(&self, value: f64, results: &Results) -> String {
        if value.is_nan() {
            return "errors".into();
        }
        if self.no_errors.is_some() {
            return "0 errors".into();
        }
        let shown = crate::page::precise(value);
        if self.below.is_some() || self.above.is_some() {
            return format!("{shown} {}", self.metric.label());
        }
        if self.linear.is_none() {
            return format!("{shown} times");
        }

        let of_floor = |step: &str| results.get(step, FLOOR, self.metric);
        let floor = of_floor(&self.step).zip(of_floor(ONE_THREAD)).map(|(many, one)| many / one);
        let floor =
            floor.map_or(String::new(), |ratio| format!(", the floor {}", crate::page::precise(ratio)));
        format!("{shown} times one thread's{floor}")
    }

    /// Returns the number of bounds, which must be one.
    pub(crate) fn bound_count(&self) -> usize {
        [
            self.at_most.is_some(),
            self.better.is_some(),
            self.better_than_all.is_some(),
            self.below.is_some(),
            self.above.is_some(),
            self.linear.is_some(),
            self.no_errors.is_some(),
        ]
        .into_iter()
        .filter(|is_present| *is_present)
        .count()
    }
}

#[cfg(test)]
mod tests;
