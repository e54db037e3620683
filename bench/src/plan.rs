//! The extent of a run: rounds, duration, and which steps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::project;
use crate::scenario::{Scenario, Step};

/// The duration of quick runs, in which even a busy machine makes some handshakes.
const QUICK: Duration = Duration::from_secs(1);

/// How often and how long to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: u64,
    /// Load of one run.
    pub(crate) duration: Duration,
    pub(crate) warms_up: bool,
    extent: Extent,
}

/// The part of a scenario that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// The step with this number of connections or threads.
    Step(u32),
    /// One short run, which only shows that everything works.
    Quick,
}

impl Plan {
    /// Returns the plan for a scenario, with its own duration unless `seconds` overrides it.
    pub(crate) fn new(
        scenario: &Scenario,
        extent: Extent,
        rounds: Option<u64>,
        seconds: Option<u64>,
    ) -> Plan {
        let is_quick = extent == Extent::Quick;
        let seconds = seconds.unwrap_or(scenario.seconds).max(1);
        Plan {
            rounds: rounds.unwrap_or(if is_quick { 1 } else { 5 }).max(1),
            duration: if is_quick { QUICK } else { Duration::from_secs(seconds) },
            warms_up: !is_quick,
            extent,
        }
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.extent == Extent::Quick
    }

    /// Returns the steps to measure.
    ///
    /// # Errors
    ///
    /// Fails if the scenario has no step of the requested name.
    pub(crate) fn steps(self, scenario: &Scenario) -> Result<Vec<Step>> {
        match self.extent {
            Extent::Whole => Ok(scenario.steps.clone()),
            Extent::Quick => Ok(vec![scenario.usual_step().clone()]),
            Extent::Step(number) => {
                let label = number.to_string();
                let step = scenario.steps.iter().find(|step| scenario.label(step) == label).cloned();
                Ok(vec![step.with_context(|| format!("{} has no step {label}", scenario.name))?])
            }
        }
    }

    /// Returns the command that repeats the run.
    pub(crate) fn command(&self, scenario: &Scenario) -> String {
        let step = match self.extent {
            Extent::Whole => String::new(),
            Extent::Step(step) => format!(" --step {step}"),
            Extent::Quick => return format!("cargo xtask bench {} --quick", scenario.name),
        };
        let seconds = self.duration.as_secs();
        format!("cargo xtask bench {}{step} --rounds {} --seconds {seconds}", scenario.name, self.rounds)
    }
}

impl Extent {
    /// Returns the folder of tables. Parts of a scenario mean little and aren't stored with complete tables.
    pub(crate) fn results(self) -> Result<PathBuf> {
        self.folder("bench/results")
    }

    /// Returns the folder of the page.
    pub(crate) fn page(self) -> Result<PathBuf> {
        self.folder("docs")
    }

    fn folder(self, name: &str) -> Result<PathBuf> {
        match self {
            Extent::Whole => Ok(project::root().join(name)),
            Extent::Step(_) => project::scratch(&format!("step/{name}")),
            Extent::Quick => project::scratch(&format!("quick/{name}")),
        }
    }
}
