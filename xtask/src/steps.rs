//! Steps of a task: each is announced and timed. After a failed step, the others still run.

use std::borrow::Cow;
use std::io::{self, Write};
use std::panic;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::project;

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

/// A step that can run beside other steps.
pub(crate) struct Beside {
    name: &'static str,
    run: Box<dyn FnOnce() -> Finished + Send>,
}

/// The output of a step, which would be mixed with that of the others, and its outcome.
type Finished = (Vec<u8>, Result<(), Error>);

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
        if let Err(error) = &result {
            println!("{error}");
        }
        let outcome = Outcome::of(result);
        println!("<== {name}: {}, {:.1} s\n", outcome.word(), took.as_secs_f64());
        self.done.push(Step { name, took, outcome });
    }

    /// Runs some steps, one after another, and `others` beside them.
    pub(crate) fn run_beside(&mut self, steps: Vec<Beside>, others: impl FnOnce(&mut Steps)) {
        if steps.is_empty() {
            return others(self);
        }
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        println!("==> {}, beside the next steps\n", names.join(", "));
        thread::scope(|scope| {
            let finished = scope.spawn(|| steps.into_iter().map(Beside::run).collect::<Vec<Step>>());
            others(self);
            match finished.join() {
                Ok(steps) => self.done.extend(steps),
                Err(panic) => panic::resume_unwind(panic),
            }
        });
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

impl Beside {
    /// Tests, whose output is printed once they are done.
    pub(crate) fn tests(name: &'static str, mut command: Command) -> Beside {
        Beside { name, run: Box::new(move || project::output_of_tests(&mut command)) }
    }

    /// A step that prints nothing unless it fails.
    pub(crate) fn quiet(name: &'static str, step: fn() -> Result<(), Error>) -> Beside {
        Beside { name, run: Box::new(move || (Vec::new(), step())) }
    }

    fn run(self) -> Step {
        let started = Instant::now();
        let (output, result) = (self.run)();
        let took = started.elapsed();
        let outcome = Outcome::of(result);

        let mut stdout = io::stdout().lock();
        // Our output may have no reader any more; the outcome is also in the exit status.
        let _ = writeln!(stdout, "==> {}", self.name).and_then(|()| stdout.write_all(&output));
        if let Outcome::Failed(error) = &outcome {
            let _ = writeln!(stdout, "{error}");
        }
        let _ = writeln!(stdout, "<== {}: {}, {:.1} s\n", self.name, outcome.word(), took.as_secs_f64());
        Step { name: self.name.into(), took, outcome }
    }
}

impl Outcome {
    fn of(result: Result<(), Error>) -> Outcome {
        match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(error),
        }
    }

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
    use std::fs;

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

    #[test]
    fn tests_run_beside_other_steps() {
        // The tests wait for a file that the other step writes, and fail afterwards.
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "until [ -e written ]; do :; done; echo failures:; echo late; exit 1"]);
        command.current_dir(&directory);

        let mut steps = Steps::default();
        steps.run_beside(vec![Beside::tests("a step that fails in a test", command)], |steps| {
            steps.run("other", || {
                fs::write(directory.path().join("written"), "").unwrap();
                Ok(())
            });
        });
        let [other, tests] = &steps.done[..] else { panic!("two steps") };
        assert!(matches!(other.outcome, Outcome::Passed));
        assert!(
            matches!(&tests.outcome, Outcome::Failed(Error::Tests { failures, .. }) if failures == &["late"])
        );
    }
}
