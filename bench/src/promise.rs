//! Performance promises: a ratio of two medians of one run, or a bound.
//!
//! They are in `scenarios.toml`; the page shows a verdict for each.

use serde::Deserialize;

use crate::metric::{Metric, precise};
use crate::results::Results;

/// A promise about Cannery at one step of a scenario. Smaller values are better.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promise {
    /// The promise in words.
    pub(crate) promise: String,
    pub(crate) step: String,
    /// The measured series.
    #[serde(default = "ours")]
    series: String,
    #[serde(default = "cpu_us")]
    metric: Metric,

    bound: Bound,
}

/// A bound of Cannery's value.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Bound {
    /// At most `times` another server's value.
    AtMost { times: f64, of: String },
    /// Another server's value is at least `times` Cannery's.
    Better { times: f64, than: String },
    /// Better than each of these servers.
    BetterThanAll(Vec<String>),
    /// At most this value.
    Below(f64),
    /// At most `by` above Cannery's value at another step.
    Above { step: String, by: f64 },
    /// Several threads reach at least this share of linear scaling; for scenarios with steps that differ by threads.
    Linear(f64),
    /// Cannery was measured without an error.
    NoErrors,
}

fn ours() -> String {
    OURS.to_owned()
}

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
        if results.get(&self.step, &self.series, Metric::Errors).is_some() {
            return Some((Verdict::Missed, f64::NAN));
        }
        let ours = value_of(&self.step, &self.series)?;

        let (value, is_kept) = match &self.bound {
            Bound::AtMost { times, of } => {
                let ratio = ours / value_of(&self.step, of)?;
                (ratio, ratio <= *times)
            }
            Bound::Better { times, than } => {
                let ratio = value_of(&self.step, than)? / ours;
                (ratio, ratio >= *times)
            }
            Bound::BetterThanAll(servers) => {
                let values = servers.iter().filter_map(|server| value_of(&self.step, server));
                let least = values.min_by(f64::total_cmp)?;
                (least / ours, least > ours)
            }
            Bound::Below(bound) => (ours, ours <= *bound),
            Bound::Above { step, by } => {
                let difference = ours - value_of(step, &self.series)?;
                (difference, difference <= *by)
            }
            Bound::Linear(share) => {
                let ratio = ours / value_of(ONE_THREAD, &self.series)?;
                (ratio, ratio <= 1.0 / share)
            }
            Bound::NoErrors => (0.0, true),
        };

        let busy = |step: &str| results.get(step, &self.series, Metric::Busy);
        let verdict = match (&self.bound, busy(&self.step), busy(ONE_THREAD)) {
            (Bound::Linear(_), Some(many), Some(one)) if many.min(one) < BUSY_MIN => {
                Verdict::Undecided(many.min(one))
            }
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
        let shown = precise(value);
        match &self.bound {
            Bound::NoErrors => "0 errors".into(),
            Bound::Below(_) | Bound::Above { .. } => format!("{shown} {}", self.metric.label()),
            Bound::AtMost { .. } | Bound::Better { .. } | Bound::BetterThanAll(_) => format!("{shown} times"),
            Bound::Linear(_) => {
                let floor = |step: &str| results.get(step, FLOOR, self.metric);
                let floor = floor(&self.step).zip(floor(ONE_THREAD)).map(|(many, one)| many / one);
                let floor = floor.map_or(String::new(), |ratio| format!(", the floor {}", precise(ratio)));
                format!("{shown} times one thread's{floor}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
