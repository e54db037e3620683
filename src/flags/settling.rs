//! The time between staging a release and switching to it.

use std::time::Duration;

/// The default in milliseconds: servers look twice, half a second apart, before they read a new release.
pub(super) const SETTLE_MS: u64 = 1500;

/// Maximum in milliseconds.
pub(super) const SETTLE_MS_MAX: u64 = 600_000;

/// How long to wait after staging, so that all servers and their processes know the files of a release before one serves its pages.
#[derive(Debug, Clone, Copy)]
pub struct Settling {
    /// 0 if there should be no wait at all.
    pub(super) milliseconds: u64,
}

impl Settling {
    /// Returns the time for an archive of this length in bytes.
    #[must_use]
    pub fn time(self, bytes: u64) -> Duration {
        match self.milliseconds {
            0 => Duration::ZERO,
            // Servers read the archive before they answer for it, at about a gigabyte per second.
            milliseconds => Duration::from_millis(milliseconds) + Duration::from_nanos(bytes),
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
    }
}
