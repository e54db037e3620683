//! The time: the only file that asks for it, once a turn of the loop.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the wall clock is taken to run as fast as the monotonic one before it is asked again.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The time of one turn of the loop.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For deadlines: never goes back.
    pub instant: Instant,
    /// For the `Date` field: seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: u64,
}

/// Tells the time with one question where two clocks would need two.
#[derive(Debug)]
pub struct Clock {
    /// When both clocks were asked.
    synced: Instant,
    /// What the wall clock said then, since 1970.
    unix: Duration,
}

impl Clock {
    /// A clock that has just been set.
    #[must_use]
    pub fn new() -> Clock {
        // A clock set before 1970 is a fault of the machine that no answer should suffer from.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { synced: Instant::now(), unix }
    }

    /// Asks for the time.
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
