//! The benchmarks: each is one file, measures one promise, and leaves its raw output in `bench/results/`.
//!
//! No figure is printed without the command, the machine and the versions that made it. Load goes to
//! 127.0.0.1 only.

mod commands;
mod docs;
mod dummy;
mod machine;
mod report;
mod server;
mod tiles;
mod usage;
mod wrk;

use crate::error::Error;
use crate::outside;
use crate::words::Words;

/// How long and how often, as the caller said or by default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Runs of each kind; the median of them is the result.
    pub(crate) rounds: u64,
    /// Seconds of load in each run.
    pub(crate) seconds: u64,
}

pub(crate) fn run(mut words: Words) -> Result<(), Error> {
    let plan =
        Plan { rounds: words.number("--rounds", 5)?.max(1), seconds: words.number("--seconds", 5)?.max(1) };
    let name =
        words.next().ok_or(Error::Usage { problem: "bench: name one of docs, tiles, dummy".into() })?;
    words.finish()?;
    let benchmark: fn(Plan) -> Result<(), Error> = match name.as_str() {
        "docs" => docs::run,
        "tiles" => tiles::run,
        "dummy" => dummy::run,
        _ => return Err(Error::Usage { problem: format!("there is no benchmark `{name}`") }),
    };
    outside::install_benchmark_programs()?;
    benchmark(plan)
}

/// The middle one of some measurements, the upper of the two middle ones if their number is even.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_does_not_depend_on_the_order_of_the_runs() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
