//! How long each stage takes, and who is told that it begins. The report's only use of a clock.

use std::time::Instant;

use crate::progress::{Progress, Stage};
use crate::report::StageTime;

/// Times the stages of a build.
pub(crate) struct Stopwatch<'p> {
    progress: &'p dyn Progress,
    running: Option<(Stage, Instant)>,
    times: Vec<StageTime>,
}

impl<'p> Stopwatch<'p> {
    pub(crate) fn new(progress: &'p dyn Progress) -> Stopwatch<'p> {
        Stopwatch { progress, running: None, times: Vec::new() }
    }

    /// Ends the stage that is running, and begins the next.
    pub(crate) fn stage(&mut self, stage: Stage, total: Option<u64>) {
        self.end();
        self.progress.stage(stage, total);
        self.running = Some((stage, Instant::now()));
    }

    /// Ends the last stage.
    pub(crate) fn finish(mut self) -> Vec<StageTime> {
        self.end();
        self.times
    }

    fn end(&mut self) {
        if let Some((stage, began)) = self.running.take() {
            self.times.push(StageTime { stage, seconds: began.elapsed().as_secs_f64() });
        }
    }
}
