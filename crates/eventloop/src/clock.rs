//! The clock, which is read once per loop iteration. No other file of this crate reads the time for an event loop.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the wall clock is extrapolated from the monotonic one before it is read again.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The time of one loop iteration.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For deadlines: monotonic.
    pub instant: Instant,
    /// For the `Date` field: seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: u64,
}

/// Reads the monotonic clock, and derives the wall clock from it.
#[derive(Debug)]
pub struct Clock {
    /// When both clocks were read last.
    synced: Instant,
    /// The wall clock at that moment, since 1970.
    unix: Duration,
}

impl Clock {
    /// Creates a clock, reading the time of the system.
    #[must_use]
    pub fn new() -> Clock {
        // We serve even if the clock is set before 1970.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { synced: Instant::now(), unix }
    }

    /// Returns the current time.
    #[must_use]
    #[inline]
    pub fn read(&mut self) -> Now {
        let mut instant = Instant::now();
        if instant.duration_since(self.synced) >= SYNC_INTERVAL {
            *self = Clock::new();
            instant = self.synced;
        }
        let unix = self.unix + instant.duration_since(self.synced);
        Now { instant, unix_seconds: unix.as_secs() }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
