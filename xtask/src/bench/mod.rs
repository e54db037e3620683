//! The benchmarks: each is one file, measures one promise, and leaves its raw output in `bench/results/`.
//!
//! No figure is printed without the command, the machine and the versions that made it. Load goes to
//! 127.0.0.1 only.

mod ab;
mod answer;
mod asker;
mod calls;
mod certificates;
mod commands;
mod compare;
mod comparisons;
mod contenders;
mod conversation;
mod docs;
mod dummy;
mod figures;
mod h2load;
mod handshakes;
mod hostile;
mod idle;
mod loaded;
mod machine;
mod measurements;
mod observe;
mod ordinary;
mod paced;
mod page;
mod picture;
mod promises;
mod publish;
mod question;
mod reload;
mod report;
mod scenario;
mod scenarios;
mod server;
mod site;
mod tiles;
mod usage;
mod warm_up;
mod wire;
mod wrk;

pub(crate) use machine::version;

use self::scenario::Extent;
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
    /// Whether runs of comparisons are preceded by load that does not count.
    pub(crate) warms_up: bool,
}

type Benchmark = fn(Plan) -> Result<(), Error>;

/// How often each is run, unless it is said.
const ROUNDS: u64 = 5;

/// All comparisons in the clear, and all over TLS.
const HALVES: [(&str, bool); 2] = [("clear", false), ("secured", true)];

/// How long a run of a comparison lasts, unless it is said. Short, because there are hundreds of them.
const COMPARISON_SECONDS: u64 = 3;

/// How long a run under load lasts, unless it is said or the benchmark needs more.
const SECONDS: u64 = 5;

pub(crate) fn run(mut words: Words) -> Result<(), Error> {
    let rounds = words.number_if_given("--rounds")?;
    let seconds = words.number_if_given("--seconds")?;
    let extent = match (words.number_if_given("--step")?, words.flag("--quick")) {
        (Some(step), false) => Extent::Step(step),
        (None, true) => Extent::Quick,
        (None, false) => Extent::Whole,
        (Some(_), true) => {
            return Err(Error::Usage { problem: "--step and --quick exclude each other".into() });
        }
    };
    let name = words.next();
    words.finish()?;
    let plan = |rounds_usual: u64, seconds_usual: u64| Plan {
        rounds: rounds.unwrap_or(rounds_usual).max(1),
        seconds: seconds.unwrap_or(seconds_usual).max(1),
        warms_up: extent != Extent::Quick,
    };
    let usual = match extent {
        Extent::Whole | Extent::Step(_) => plan(ROUNDS, COMPARISON_SECONDS),
        Extent::Quick => plan(1, 1),
    };
    if name.as_deref() == Some("page") {
        return comparisons::write_page(Extent::Whole);
    }
    outside::install_benchmark_programs()?;
    let Some(name) = name else {
        return comparisons::run(&scenarios::ALL, &measurements::ALL, usual, extent);
    };
    if let Some((_, is_secured)) = HALVES.iter().find(|(half, _)| *half == name) {
        let scenarios = scenarios::ALL.into_iter().filter(|scenario| scenario.is_secured() == *is_secured);
        let measurements = measurements::ALL.into_iter().filter(|other| other.is_secured == *is_secured);
        let (scenarios, measurements): (Vec<_>, Vec<_>) = (scenarios.collect(), measurements.collect());
        return comparisons::run(&scenarios, &measurements, usual, extent);
    }
    if let Some(scenario) = scenarios::ALL.iter().find(|scenario| scenario.name == name) {
        return comparisons::run(&[scenario], &[], usual, extent);
    }
    if let Some(measurement) = measurements::ALL.iter().find(|measurement| measurement.name == name) {
        return comparisons::run(&[], &[measurement], usual, extent);
    }
    let (benchmark, seconds_usual): (Benchmark, u64) = match name.as_str() {
        "docs" => (docs::run, SECONDS),
        "tiles" => (tiles::run, SECONDS),
        "dummy" => (dummy::run, SECONDS),
        "calls" => (calls::run, SECONDS),
        "idle" => (idle::run, SECONDS),
        "observe" => (observe::run, 3),
        "reload" => (reload::run, 3),
        // Long enough that the server's patience with slow readers ends within a run.
        "hostile" => (hostile::run, 75),
        _ => return Err(Error::Usage { problem: format!("there is no benchmark `{name}`") }),
    };
    benchmark(plan(ROUNDS, seconds_usual))
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
