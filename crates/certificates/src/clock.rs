//! Time: the wall clock, which can be set, and a clock that only moves forward.

use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A time of the wall clock as Unix time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// Both clocks at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The wall clock: certificates and authorities use it.
    pub(crate) wall: Timestamp,
    /// Time since the process has started. It does not jump.
    pub(crate) steady: Duration,
}

/// The clocks of the system.
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: Timestamp::now(), steady: self.started.elapsed() }
    }
}

impl Timestamp {
    /// Returns the current time. Returns 1970 for earlier times.
    #[must_use]
    pub fn now() -> Timestamp {
        Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// Returns the time as the standard library has it.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.0)
    }

    /// Returns the time from `self` until `later`, or zero if that is in the past.
    #[must_use]
    pub fn until(self, later: Timestamp) -> Duration {
        Duration::from_secs(later.0.saturating_sub(self.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(time.as_secs()))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(time.as_secs()))
    }
}
