//! How far a build has come: a bar on a terminal, plain lines elsewhere.
//!
//! Nothing is shown of what is over before a person would have looked. Never slows the build: drawing is
//! bounded to a few times a second.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cannery_archiver::{Progress, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::format;
use crate::output;

/// A build that is over sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// Between two plain lines of one stage.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows how far a build has come.
#[derive(Debug)]
pub struct Shown {
    way: Way,
    started: Instant,
    now: Mutex<Now>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bar,
    Lines,
    Nothing,
}

/// The stage that the build is in.
#[derive(Debug)]
struct Now {
    stage: Stage,
    total: Option<u64>,
    done: u64,
    said: Instant,
    bar: Option<ProgressBar>,
}

impl Shown {
    /// A bar if standard error is a terminal; else lines if they were `asked` for. Nothing if `quiet`.
    #[must_use]
    pub fn new(asked: bool, quiet: bool) -> Shown {
        let way = match (quiet, io::stderr().is_terminal(), asked) {
            (true, _, _) | (false, false, false) => Way::Nothing,
            (false, true, _) => Way::Bar,
            (false, false, true) => Way::Lines,
        };
        let started = Instant::now();
        let now = Now { stage: Stage::Walk, total: None, done: 0, said: started, bar: None };
        Shown { way, started, now: Mutex::new(now) }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = self.lock().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Now> {
        // What is behind the lock is only shown: a panic elsewhere leaves nothing in it that could mislead.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Shown {
    fn stage(&self, stage: Stage, total: Option<u64>) {
        let mut now = self.lock();
        if let Some(bar) = now.bar.take() {
            bar.finish_and_clear();
        }
        *now = Now { stage, total, done: 0, said: Instant::now(), bar: None };
        if self.way == Way::Lines {
            output::note(line(stage, None, total));
        }
    }

    fn advance(&self, by: u64) {
        if self.way == Way::Nothing {
            return;
        }
        let mut now = self.lock();
        now.done += by;
        match self.way {
            Way::Lines if now.said.elapsed() >= LINE_INTERVAL => {
                now.said = Instant::now();
                output::note(line(now.stage, Some(now.done), now.total));
            }
            Way::Bar if self.started.elapsed() >= PATIENCE => {
                let (stage, total, done) = (now.stage, now.total, now.done);
                now.bar.get_or_insert_with(|| bar(stage, total)).set_position(done);
            }
            Way::Bar | Way::Lines | Way::Nothing => {}
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
    // The template is a constant but for a name; should it ever be wrong, the default bar serves.
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

fn line(stage: Stage, done: Option<u64>, total: Option<u64>) -> String {
    let shown = |number| if counts_bytes(stage) { format::bytes(number) } else { format::count(number) };
    match (done, total) {
        (Some(done), Some(total)) => format!("{}: {} of {}", name(stage), shown(done), shown(total)),
        (Some(done), None) => format!("{}: {}", name(stage), shown(done)),
        (None, Some(total)) => format!("{}: {}", name(stage), shown(total)),
        (None, None) => name(stage).to_owned(),
    }
}

const fn counts_bytes(stage: Stage) -> bool {
    matches!(stage, Stage::Encode)
}

/// What a stage is called while it lasts.
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
    fn lines_say_what_is_counted() {
        assert_eq!(line(Stage::Walk, None, None), "listing");
        assert_eq!(line(Stage::Read, None, Some(1065)), "reading: 1,065");
        assert_eq!(line(Stage::Read, Some(500), Some(1065)), "reading: 500 of 1,065");
        assert_eq!(line(Stage::Encode, Some(1_000_000), Some(67_170_732)), "compressing: 1.00 MB of 67.2 MB");
    }

    #[test]
    fn quiet_wins_over_progress() {
        assert_eq!(Shown::new(true, true).way, Way::Nothing);
    }

    #[test]
    fn what_is_done_adds_up_over_a_stage_and_begins_anew_in_the_next() {
        let shown = Shown { way: Way::Lines, ..Shown::new(false, true) };
        shown.stage(Stage::Read, Some(3));
        shown.advance(1);
        shown.advance(2);
        assert_eq!(shown.lock().done, 3);
        shown.stage(Stage::Write, None);
        assert_eq!(shown.lock().done, 0);
    }
}
