//! A directory of sites that are named by their hosts.

use std::path::PathBuf;

/// A directory of archives `HOST.cdb`, and of release directories named by a host. Each site is opened at the first request for it.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Maximum number of sites that are open at a time.
    pub open_max: u16,
    /// Older archives to keep open for each release directory, as in [`ReleaseDirectory`](super::ReleaseDirectory).
    pub kept: usize,
}

impl SiteDirectory {
    /// Maximum of `open_max`.
    pub const OPEN_MAX: u16 = 4000;

    /// Maximum of `kept`, because archives of all open sites have numbers in common.
    pub const KEPT_MAX: usize = 1000;

    /// Returns a directory with this many open sites.
    #[must_use]
    pub fn new(path: PathBuf, open_max: u16, kept: usize) -> SiteDirectory {
        let open_max = open_max.clamp(1, SiteDirectory::OPEN_MAX);
        SiteDirectory { path, open_max, kept: kept.min(SiteDirectory::KEPT_MAX) }
    }
}
