//! The benchmarks: each is one file, measures one promise, and leaves its raw output in `bench/results/`.
//!
//! No figure is printed without the command, the machine and the versions that made it. Load goes to
//! 127.0.0.1 only.

mod commands;
mod docs;
mod dummy;
mod hostile;
mod idle;
mod machine;
mod observe;
mod ordinary;
mod page;
mod reload;
mod report;
mod server;
mod tiles;
mod usage;
mod wrk;

pub(crate) use machine::version;

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

type Benchmark = fn(Plan) -> Result<(), Error>;

/// How often each is run, unless it is said.
const ROUNDS: u64 = 5;

/// How long a run under load lasts, unless it is said or the benchmark needs more.
const SECONDS: u64 = 5;

pub(crate) fn run(mut words: Words) -> Result<(), Error> {
    let rounds = words.number_if_given("--rounds")?;
    let seconds = words.number_if_given("--seconds")?;
    let name = words.next().ok_or(Error::Usage {
        problem: "bench: name one of docs, tiles, dummy, idle, observe, reload, hostile".into(),
    })?;
    words.finish()?;
    let (benchmark, seconds_usual): (Benchmark, u64) = match name.as_str() {
        "docs" => (docs::run, SECONDS),
        "tiles" => (tiles::run, SECONDS),
        "dummy" => (dummy::run, SECONDS),
        "idle" => (idle::run, SECONDS),
        "observe" => (observe::run, 3),
        "reload" => (reload::run, 3),
        // Long enough that the server's patience with slow readers ends within a run.
        "hostile" => (hostile::run, 75),
        _ => return Err(Error::Usage { problem: format!("there is no benchmark `{name}`") }),
    };
    let plan =
        Plan { rounds: rounds.unwrap_or(ROUNDS).max(1), seconds: seconds.unwrap_or(seconds_usual).max(1) };
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
