//! Build progress: a bar on terminals, plain lines elsewhere.
//!
//! There is no bar when a build takes less than [`BAR_DELAY`]. To avoid slowing down the build, the bar is redrawn at most a
//! few times per second.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cannery_archiver::{Progress, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::format;
use crate::output;

/// Time after which the bar appears.
const BAR_DELAY: Duration = Duration::from_millis(400);

/// Interval between plain lines for the same stage.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress of a build on standard error.
#[derive(Debug)]
pub struct ProgressDisplay {
    style: Style,
    started: Instant,
    current: Mutex<CurrentStage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Bar,
    Lines,
    Hidden,
}

#[derive(Debug)]
struct CurrentStage {
    stage: Stage,
    total: Option<u64>,
    done: u64,
    printed: Instant,
    bar: Option<ProgressBar>,
}

impl ProgressDisplay {
    /// Does not show anything.
    #[must_use]
    pub fn hidden() -> ProgressDisplay {
        ProgressDisplay::new(Style::Hidden)
    }

    /// Shows a bar if standard error is a terminal. Otherwise, nothing is shown.
    #[must_use]
    pub fn on_terminal() -> ProgressDisplay {
        ProgressDisplay::new(if io::stderr().is_terminal() { Style::Bar } else { Style::Hidden })
    }

    /// Shows a bar if standard error is a terminal, and plain lines otherwise.
    #[must_use]
    pub fn always() -> ProgressDisplay {
        ProgressDisplay::new(if io::stderr().is_terminal() { Style::Bar } else { Style::Lines })
    }

    fn new(style: Style) -> ProgressDisplay {
        let started = Instant::now();
        let current = CurrentStage { stage: Stage::Walk, total: None, done: 0, printed: started, bar: None };
        ProgressDisplay { style, started, current: Mutex::new(current) }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.lock().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CurrentStage> {
        // These values are only displayed, so it does no harm when a panicking thread has left
        // them half-written.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for ProgressDisplay {
    fn stage(&self, stage: Stage, total: Option<u64>) {
        let mut current = self.lock();
        if let Some(bar) = current.bar.take() {
            bar.finish_and_clear();
        }
        *current = CurrentStage { stage, total, done: 0, printed: Instant::now(), bar: None };
        if self.style == Style::Lines {
            output::note(line(stage, None, total));
        }
    }

    fn advance(&self, by: u64) {
        if self.style == Style::Hidden {
            return;
        }
        let mut current = self.lock();
        current.done += by;
        match self.style {
            Style::Lines if current.printed.elapsed() >= LINE_INTERVAL => {
                current.printed = Instant::now();
                output::note(line(current.stage, Some(current.done), current.total));
            }
            Style::Bar if self.started.elapsed() >= BAR_DELAY => {
                let CurrentStage { stage, total, done, .. } = *current;
                current.bar.get_or_insert_with(|| bar(stage, total)).set_position(done);
            }
            Style::Bar | Style::Lines | Style::Hidden => {}
        }
    }
}

fn bar(stage: Stage, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let counter = if counts_bytes(stage) {
        "{decimal_bytes} of {decimal_total_bytes}"
    } else {
        "{human_pos} of {human_len}"
    };
    let template = format!("{:<13} {{wide_bar}} {counter} {{eta:>5}}", name(stage));
    bar.set_style(ProgressStyle::with_template(&template).expect("the template is valid"));
    bar
}

fn line(stage: Stage, done: Option<u64>, total: Option<u64>) -> String {
    let amount = |number| if counts_bytes(stage) { format::bytes(number) } else { format::count(number) };
    match (done, total) {
        (Some(done), Some(total)) => format!("{}: {} of {}", name(stage), amount(done), amount(total)),
        (Some(done), None) => format!("{}: {}", name(stage), amount(done)),
        (None, Some(total)) => format!("{}: {}", name(stage), amount(total)),
        (None, None) => name(stage).to_owned(),
    }
}

const fn counts_bytes(stage: Stage) -> bool {
    matches!(stage, Stage::Encode)
}

/// Returns the name of a stage as shown to users.
#[must_use]
pub const fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Walk => "listing",
        Stage::Route => "planning",
        Stage::Read => "reading",
        Stage::Encode => "compressing",
        Stage::Write => "writing",
        Stage::Links => "checking",
        Stage::Publish => "publishing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_stage_and_amount() {
        assert_eq!(line(Stage::Walk, None, None), "listing");
        assert_eq!(line(Stage::Read, None, Some(1065)), "reading: 1,065");
        assert_eq!(line(Stage::Read, Some(500), Some(1065)), "reading: 500 of 1,065");
        assert_eq!(line(Stage::Encode, Some(1_000_000), Some(67_170_732)), "compressing: 1.00 MB of 67.2 MB");
    }

    #[test]
    fn each_stage_counts_from_zero() {
        let display = ProgressDisplay::new(Style::Lines);
        display.stage(Stage::Read, Some(3));
        display.advance(1);
        display.advance(2);
        assert_eq!(display.lock().done, 3);
        display.stage(Stage::Write, None);
        assert_eq!(display.lock().done, 0);
    }
}
