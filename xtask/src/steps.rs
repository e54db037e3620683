//! Steps of a task: each is announced and timed. After a failed step, the others still run.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::error::Error;

/// Finished steps with their outcomes.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: Cow<'static, str>,
    took: Duration,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Failed(Error),
    Skipped(Cow<'static, str>),
}

impl Steps {
    pub(crate) fn run(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        step: impl FnOnce() -> Result<(), Error>,
    ) {
        let name = name.into();
        println!("==> {name}");
        let started = Instant::now();
        let result = step();
        let took = started.elapsed();
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                println!("{error}");
                Outcome::Failed(error)
            }
        };
        println!("<== {name}: {}, {:.1} s\n", outcome.word(), took.as_secs_f64());
        self.done.push(Step { name, took, outcome });
    }

    /// Records that a step isn't run, with the reason.
    pub(crate) fn skip(&mut self, name: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) {
        let outcome = Outcome::Skipped(reason.into());
        self.done.push(Step { name: name.into(), took: Duration::ZERO, outcome });
    }

    /// Prints the summary, and the errors again.
    ///
    /// # Errors
    ///
    /// Returns an error if a step failed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for step in &self.done {
            let reason = match &step.outcome {
                Outcome::Skipped(reason) => reason.as_ref(),
                Outcome::Passed | Outcome::Failed(_) => "",
            };
            println!(
                "{:<26} {:<8} {:>7.1} s  {reason}",
                step.name,
                step.outcome.word(),
                step.took.as_secs_f64()
            );
        }

        let errors = self.done.iter().filter_map(|step| match &step.outcome {
            Outcome::Failed(error) => Some((&step.name, error)),
            _ => None,
        });
        let mut failed = 0;
        for (name, error) in errors {
            println!("\n{name}: {error}");
            failed += 1;
        }
        if failed == 0 { Ok(()) } else { Err(Error::Steps { failed, total: self.done.len() }) }
    }
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_after_a_failed_one() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.run("first", || Err(Error::Usage { problem: "no".into() }));
        steps.run("second", || {
            ran = true;
            Ok(())
        });
        steps.skip("third", "not today");
        assert!(ran);
        assert!(matches!(steps.finish(), Err(Error::Steps { failed: 1, total: 3 })));
    }
}
