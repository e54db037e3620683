//! The extent of a run: rounds, duration, and which steps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::project;
use crate::scenario::{Scenario, Step};

/// How often and how long to measure, as the command line has it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Plan {
    /// Runs of each server; the median counts [default: 5]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Seconds of load in each run [default: 3, or the scenario's]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Only the step with this number of connections, or threads
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// One short run each, which only shows that everything works
    #[arg(long = "quick")]
    pub(crate) is_quick: bool,
}

impl Plan {
    /// One short run.
    pub(crate) const QUICK: Plan = Plan { rounds: None, seconds: None, step: None, is_quick: true };

    pub(crate) fn rounds(self) -> u64 {
        self.rounds.unwrap_or(if self.is_quick { 1 } else { 5 }).max(1)
    }

    /// Returns the duration of the load in one run. Even a busy machine makes some handshakes in a second.
    pub(crate) fn duration(self, scenario: &Scenario) -> Duration {
        let seconds = if self.is_quick { 1 } else { self.seconds.unwrap_or(scenario.seconds) };
        Duration::from_secs(seconds.max(1))
    }

    /// Returns the steps to measure: those of this number, or in a quick run the usual one, or all.
    pub(crate) fn steps(self, scenario: &Scenario) -> Result<Vec<Step>> {
        let Some(number) = self.step else {
            let usual = scenario.usual_step().clone();
            return Ok(if self.is_quick { vec![usual] } else { scenario.steps.clone() });
        };
        let steps: Vec<_> =
            scenario.steps.iter().filter(|step| scenario.number(step) == number).cloned().collect();
        ensure!(!steps.is_empty(), "{} has no step {number}", scenario.name);
        Ok(steps)
    }

    /// Returns the command that repeats the run.
    pub(crate) fn command(self, scenario: &Scenario) -> String {
        let step = self.step.map_or(String::new(), |step| format!(" --step {step}"));
        let extent = if self.is_quick {
            " --quick".to_owned()
        } else {
            format!(" --rounds {} --seconds {}", self.rounds(), self.duration(scenario).as_secs())
        };
        format!("cargo xtask bench {}{step}{extent}", scenario.name)
    }

    /// Returns the folder for files of `bench/results` or `docs`. Parts of a scenario mean little and aren't stored with
    /// complete tables.
    pub(crate) fn folder(self, name: &str) -> Result<PathBuf> {
        let is_whole = self.step.is_none() && !self.is_quick;
        if is_whole { Ok(project::root().join(name)) } else { project::scratch(&format!("part/{name}")) }
    }
}
