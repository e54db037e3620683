//! Measures the stages of a build and reports them to the observer. This clock is only used for the
//! report.

use std::time::Instant;

use crate::ground::progress::{Progress, Stage};
use crate::ground::report::StageTime;

pub(crate) struct Stopwatch<'p> {
    progress: &'p dyn Progress,
    running: Option<(Stage, Instant)>,
    times: Vec<StageTime>,
}

impl<'p> Stopwatch<'p> {
    pub(crate) fn new(progress: &'p dyn Progress) -> Stopwatch<'p> {
        Stopwatch { progress, running: None, times: Vec::new() }
    }

    /// Ends the current stage and starts the next one.
    pub(crate) fn stage(&mut self, stage: Stage, total: Option<u64>) {
        self.end();
        self.progress.stage(stage, total);
        self.running = Some((stage, Instant::now()));
    }

    /// Ends the last stage and returns all times.
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
