//! Waits for a moment that the user has chosen, by the clock of this machine.

use std::thread;
use std::time::{Duration, SystemTime};

/// Returns the time until a moment, or zero if it is past.
pub(super) fn remaining(moment: SystemTime) -> Duration {
    moment.duration_since(SystemTime::now()).unwrap_or_default()
}

/// Waits for a moment. The clock may be set meanwhile, and the machine may be suspended.
pub(super) fn wait_until(moment: SystemTime) {
    loop {
        let left = remaining(moment);
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_secs(1)));
    }
}
