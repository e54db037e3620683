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
    /// At most `times` Cannery's value at another step.
    AtMostStep { times: f64, step: String },
    /// At most `by` above Cannery's value at another step.
    Above { step: String, by: f64 },
    /// At most `by` above another server's value.
    AboveOther { than: String, by: f64 },
    /// Several threads scale at least this share as well as the floor's, whose processes share no memory; for scenarios
    /// with steps that differ by threads.
    ScalesLikeFloor(f64),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Missed,
    /// A promise about threads that were busy for less than [`BUSY_MIN`].
    Undecided,
    NotMeasured,
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
    /// Returns the verdict, and the value that decides it with its unit.
    pub(crate) fn verdict(&self, results: &Results) -> (Verdict, String) {
        if results.get(&self.step, &self.series, Metric::Errors).is_some() {
            return (Verdict::Missed, "errors".into());
        }
        let Some((value, is_kept)) = self.compare(results) else {
            return (Verdict::NotMeasured, String::new());
        };
        let measured = self.describe(value, results);

        if let Bound::ScalesLikeFloor(_) = self.bound {
            let busy = |step| results.get(step, &self.series, Metric::Busy);
            let Some((many, one)) = busy(&self.step).zip(busy(ONE_THREAD)) else {
                return (Verdict::NotMeasured, String::new());
            };
            let least = many.min(one);
            if least < BUSY_MIN {
                return (Verdict::Undecided, format!("busy {:.0} %: {measured}", least * 100.0));
            }
        }
        (if is_kept { Verdict::Kept } else { Verdict::Missed }, measured)
    }

    /// Returns the deciding value, and whether it is within the bound, or `None` if a value is missing.
    fn compare(&self, results: &Results) -> Option<(f64, bool)> {
        let value = |step: &str, series: &str| results.get(step, series, self.metric);

        let ours = value(&self.step, &self.series)?;
        Some(match &self.bound {
            Bound::AtMost { times, of } => {
                let ratio = ours / value(&self.step, of)?;
                (ratio, ratio <= *times)
            }
            Bound::Better { times, than } => {
                let ratio = value(&self.step, than)? / ours;
                (ratio, ratio >= *times)
            }
            Bound::BetterThanAll(servers) => {
                let values = servers.iter().filter_map(|server| value(&self.step, server));
                let least = values.min_by(f64::total_cmp)?;
                (least / ours, least > ours)
            }
            Bound::Below(bound) => (ours, ours <= *bound),
            Bound::AtMostStep { times, step } => {
                let ratio = ours / value(step, &self.series)?;
                (ratio, ratio <= *times)
            }
            Bound::Above { step, by } => {
                let difference = ours - value(step, &self.series)?;
                (difference, difference <= *by)
            }
            Bound::AboveOther { than, by } => {
                let difference = ours - value(&self.step, than)?;
                (difference, difference <= *by)
            }
            Bound::ScalesLikeFloor(share) => {
                let ratio = ours / value(ONE_THREAD, &self.series)?;
                let floor = value(&self.step, FLOOR)? / value(ONE_THREAD, FLOOR)?;
                (ratio, floor / ratio >= *share)
            }
            Bound::NoErrors => (0.0, true),
        })
    }

    /// Returns the multiple of Cannery's value that the promise requires of another server's, if it compares the two.
    pub(crate) fn required_ratio(&self, step: &str, metric: Metric, peer: &str) -> Option<f64> {
        if self.step != step || self.metric != metric || self.series != OURS {
            return None;
        }
        match &self.bound {
            Bound::Better { times, than } => (than == peer).then_some(*times),
            Bound::AtMost { times, of } => (of == peer).then_some(1.0 / times),
            Bound::BetterThanAll(servers) => servers.iter().any(|server| server == peer).then_some(1.0),
            _ => None,
        }
    }

    /// Formats the deciding value with its unit, and for scaling with the floor's.
    fn describe(&self, value: f64, results: &Results) -> String {
        let shown = precise(value);
        match &self.bound {
            Bound::NoErrors => "0 errors".into(),
            Bound::Below(_) | Bound::Above { .. } | Bound::AboveOther { .. } => {
                format!("{shown} {}", self.metric.label())
            }
            Bound::AtMost { .. }
            | Bound::AtMostStep { .. }
            | Bound::Better { .. }
            | Bound::BetterThanAll(_) => format!("{shown} times"),
            Bound::ScalesLikeFloor(_) => {
                let floor = |step: &str| results.get(step, FLOOR, self.metric);
                let floor = floor(&self.step).zip(floor(ONE_THREAD)).map(|(many, one)| many / one);
                let floor = floor.map_or(String::new(), |ratio| format!(", the floor {}", precise(ratio)));
                format!("{shown} times one thread's{floor}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Sample, Samples};

    /// Returns the verdict on a bound at the step of 64 connections.
    fn verdict(bound: &str, values: &[(&str, &str, Sample)]) -> Verdict {
        let promise: Promise =
            toml::from_str(&format!("promise = ''\nstep = '64'\nbound = {bound}")).unwrap();
        let mut samples = Samples::default();
        for (step, series, sample) in values {
            samples.add(step, series, sample.clone());
        }
        promise.verdict(&Results { conditions: Vec::new(), rows: samples.into_rows() }).0
    }

    #[test]
    fn bounds_compare_in_the_right_direction() {
        let cpu_us = |value| vec![(Metric::CpuUs, value)];
        let values = [
            ("64", "cannery", cpu_us(4.0)),
            ("64", "floor", cpu_us(2.0)),
            ("64", "nginx", cpu_us(6.0)),
            ("32", "cannery", cpu_us(3.0)),
        ];

        for (kept, missed) in [
            ("{ at_most = { times = 2.0, of = 'floor' } }", "{ at_most = { times = 1.9, of = 'floor' } }"),
            ("{ better = { times = 1.5, than = 'nginx' } }", "{ better = { times = 1.6, than = 'nginx' } }"),
            ("{ better_than_all = ['nginx', 'absent'] }", "{ better_than_all = ['nginx', 'floor'] }"),
            ("{ below = 4.0 }", "{ below = 3.9 }"),
            (
                "{ at_most_step = { times = 1.4, step = '32' } }",
                "{ at_most_step = { times = 1.3, step = '32' } }",
            ),
            ("{ above = { step = '32', by = 1.0 } }", "{ above = { step = '32', by = 0.5 } }"),
            (
                "{ above_other = { than = 'floor', by = 2.0 } }",
                "{ above_other = { than = 'floor', by = 1.5 } }",
            ),
        ] {
            assert_eq!((verdict(kept, &values), verdict(missed, &values)), (Verdict::Kept, Verdict::Missed));
        }

        assert_eq!(verdict("'no_errors'", &values), Verdict::Kept);
        assert_eq!(verdict("{ better = { times = 1.0, than = 'h2o' } }", &values), Verdict::NotMeasured);
    }

    #[test]
    fn scaling_needs_busy_threads() {
        let scaling = |busy: [f64; 2], cpu_us: f64| {
            let one = vec![(Metric::CpuUs, 4.0), (Metric::Busy, busy[0])];
            let many = vec![(Metric::CpuUs, cpu_us), (Metric::Busy, busy[1])];
            let floor = |value| vec![(Metric::CpuUs, value)];
            let floors = [("1", FLOOR, floor(2.0)), ("64", FLOOR, floor(2.2))];
            let ours = [("1", OURS, one), ("64", OURS, many)];
            verdict("{ scales_like_floor = 0.95 }", &[ours, floors].concat())
        };
        assert_eq!(scaling([0.99, 0.9], 4.6), Verdict::Kept);
        assert_eq!(scaling([0.99, 0.9], 5.0), Verdict::Missed);
        assert_eq!(scaling([0.99, 0.3], 4.2), Verdict::Undecided);
        assert_eq!(scaling([0.8, 0.9], 4.2), Verdict::Undecided);

        let cpu_us = |value| vec![(Metric::CpuUs, value)];
        let values = [("1", OURS, cpu_us(4.0)), ("64", OURS, cpu_us(4.2))];
        assert_eq!(verdict("{ scales_like_floor = 0.95 }", &values), Verdict::NotMeasured);
    }

    #[test]
    fn an_error_misses_every_promise_of_its_step() {
        let values = [("64", OURS, vec![(Metric::Errors, 1.0)])];
        assert_eq!(verdict("'no_errors'", &values), Verdict::Missed);
        assert_eq!(verdict("'no_errors'", &[]), Verdict::NotMeasured);
    }
}
