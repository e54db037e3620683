//! Steps of a task: each is announced, timed and remembered; one that fails does not end the others.

use std::time::{Duration, Instant};

use crate::error::Error;

/// What was done so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Failed,
    LeftOut(&'static str),
}

impl Steps {
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<(), Error>) {
        println!("==> {name}");
        let started = Instant::now();
        let result = step();
        let took = started.elapsed();
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                println!("{error}");
                Outcome::Failed
            }
        };
        println!("<== {name}: {}, {:.1} s\n", outcome.word(), took.as_secs_f64());
        self.done.push(Step { name, took, outcome });
    }

    /// Says that a step is not run, and why.
    pub(crate) fn leave_out(&mut self, name: &'static str, reason: &'static str) {
        self.done.push(Step { name, took: Duration::ZERO, outcome: Outcome::LeftOut(reason) });
    }

    /// Prints the summary, and fails if any step failed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for step in &self.done {
            let reason = match step.outcome {
                Outcome::LeftOut(reason) => reason,
                Outcome::Passed | Outcome::Failed => "",
            };
            println!(
                "{:<18} {:<8} {:>7.1} s  {reason}",
                step.name,
                step.outcome.word(),
                step.took.as_secs_f64()
            );
        }
        let failed = self.done.iter().filter(|step| matches!(step.outcome, Outcome::Failed)).count();
        if failed == 0 { Ok(()) } else { Err(Error::Steps { failed, total: self.done.len() }) }
    }
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::LeftOut(_) => "left out",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_whole_and_the_steps_after_it_still_run() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.run("first", || Err(Error::Usage { problem: "no".into() }));
        steps.run("second", || {
            ran = true;
            Ok(())
        });
        steps.leave_out("third", "not today");
        assert!(ran);
        assert!(matches!(steps.finish(), Err(Error::Steps { failed: 1, total: 3 })));
    }
}
