//! The time between staging a release and switching to it.

use std::time::Duration;

/// The default in milliseconds. A server looks four times a second. If the file system doesn't show when a file was renamed, only its second
/// look takes a new release, half a second later. The other 100 ms are for reading a small archive, and for a busy machine;
/// [`Settling::time`] adds more for a large one.
pub(super) const SETTLE_MS: u64 = 600;

/// Maximum in milliseconds.
pub(super) const SETTLE_MS_MAX: u64 = 600_000;

/// The default for nodes that pull from a store, in milliseconds. By default, they look every 5 to 6.25 seconds, and their servers need
/// a second. The rest is for pulling a few megabytes.
pub(super) const SETTLE_NODES_MS: u64 = 15_000;

/// Maximum for nodes that pull from a store, in milliseconds: a node looks at least once in a day and a quarter, by `--interval`.
pub(super) const SETTLE_NODES_MS_MAX: u64 = 108_000_000;

/// How long to wait after staging, so that all servers and their processes know the files of a release before one serves its pages.
#[derive(Debug, Clone, Copy)]
pub struct Settling {
    /// 0 if there should be no wait at all.
    pub(super) milliseconds: u64,
}

impl Settling {
    /// Returns the time that a client has asked for, in milliseconds.
    #[must_use]
    pub fn requested(milliseconds: u64) -> Settling {
        Settling { milliseconds: milliseconds.min(SETTLE_MS_MAX) }
    }

    /// Returns the rest of the time for an archive of this length in bytes that has had its name for this long.
    #[must_use]
    pub fn rest(self, bytes: u64, age: Duration) -> Duration {
        self.time(bytes).saturating_sub(age)
    }

    /// Returns the time for an archive of this length in bytes.
    #[must_use]
    pub fn time(self, bytes: u64) -> Duration {
        match self.milliseconds {
            0 => Duration::ZERO,
            // Servers read the archive before they answer for it, at about a gigabyte per second.
            milliseconds => Duration::from_millis(milliseconds + (bytes / 1_000_000).min(SETTLE_MS_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_archives_get_more_time() {
        assert_eq!(Settling { milliseconds: 1500 }.time(2_000_000_000), Duration::from_millis(3500));
        assert_eq!(Settling { milliseconds: 0 }.time(2_000_000_000), Duration::ZERO);
        let longest = Settling { milliseconds: 1500 }.time(u64::MAX);
        assert_eq!(longest, Duration::from_millis(1500 + SETTLE_MS_MAX));
    }

    #[test]
    fn older_releases_need_no_time() {
        let rest = |age| Settling { milliseconds: 1500 }.rest(0, Duration::from_millis(age));
        assert_eq!([0, 1000, 2000].map(rest), [1500, 500, 0].map(Duration::from_millis));
    }
}
