//! Decides when to restart a child process that has ended.
//!
//! The delay gets longer with each failure at startup (exponential backoff), to avoid using a whole CPU for a
//! program that cannot run. This policy applies to the processes of a supervisor as well as to those that
//! compile a folder.

use std::time::{Duration, Instant};

/// After this uptime, an exit is not counted as a failure at start.
const STABLE_UPTIME: Duration = Duration::from_secs(10);

/// The delay before the first restart. Each failure at start doubles the next one.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest delay before a restart.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// The restarts of one child process.
#[derive(Debug)]
pub struct Restarts {
    /// The start of the latest process.
    started: Instant,
    /// The delay before the next restart, which will be reset if the latest process proves to be
    /// stable.
    next_delay: Duration,
}

impl Restarts {
    /// Creates the state for a process that starts at this time for the first time.
    #[must_use]
    pub fn of_process_started(now: Instant) -> Restarts {
        Restarts { started: now, next_delay: DELAY_MIN }
    }

    /// Records that the process starts, or that the attempt to start it begins.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
    }

    /// Records that the process has ended or could not be started. Returns the delay before the next attempt.
    pub fn delay_after_exit(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.started) >= STABLE_UPTIME {
            self.next_delay = DELAY_MIN;
        }
        let delay = self.next_delay;
        self.next_delay = (delay * 2).min(DELAY_MAX);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_until_a_process_is_stable() {
        let mut now = Instant::now();
        let mut restarts = Restarts::of_process_started(now);
        let mut delays = Vec::new();
        for uptime in [0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0] {
            restarts.start(now);
            now += Duration::from_secs(uptime);
            delays.push(restarts.delay_after_exit(now).as_millis());
        }
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 100, 200];
        assert_eq!(delays, expected);
    }
}
