//! Polling: scans the folder, and compares the metadata of all files with those of the last scan.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::tree::{self, Detail, Entry, Filter};

/// A file can change twice within the resolution of its file system's clock, which is two seconds on the coarsest.
const RESOLUTION: Duration = Duration::from_secs(2);

/// The interval as a multiple of the duration of a scan, if it isn't given: scans take at most 2 % of a processor.
const INTERVAL_PER_SCAN: u32 = 50;

/// The shortest interval, if it isn't given.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(250);

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Nothing has changed since the last scan.
    Unchanged,
    /// Files may have changed.
    Changed,
}

/// The state of a folder at its last scan.
pub(crate) struct Poller {
    /// The interval that the caller gave.
    interval: Option<Duration>,
    /// The number of threads that scan.
    threads: usize,
    /// A hash of all paths and metadata.
    state: u64,
    /// The number of files.
    files: usize,
    /// The duration of the scan.
    took: Duration,
    /// When a file that was just modified can no longer change without new metadata.
    settles: Option<Instant>,
}

/// The part of a scan that one thread has done.
#[derive(Default)]
struct PartialScan {
    state: u64,
    files: usize,
    /// Whether a file was just modified.
    is_recent: bool,
}

impl Poller {
    /// Scans the folder for the first time, from one thread.
    pub(crate) fn new(root: &Path, filter: &Filter, interval: Option<Duration>) -> Poller {
        Poller::with_threads(1, root, filter, interval)
    }

    /// Scans the folder for the first time. Each scan uses up to this many threads.
    pub(crate) fn with_threads(
        threads: usize,
        root: &Path,
        filter: &Filter,
        interval: Option<Duration>,
    ) -> Poller {
        let mut poller =
            Poller { interval, threads, state: 0, files: 0, took: Duration::ZERO, settles: None };
        poller.scan(root, filter);
        poller
    }

    /// Returns the number of files at the last scan.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// Returns the time until the next scan.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.unwrap_or_else(|| INTERVAL_MIN.max(self.took * INTERVAL_PER_SCAN))
    }

    /// Scans the folder, and compares it with the last scan. A file that could have changed without new metadata counts as
    /// changed.
    pub(crate) fn scan(&mut self, root: &Path, filter: &Filter) -> Finding {
        let began = Instant::now();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let visit = |part: &mut PartialScan, path: &Path, entry: Entry<'_>| {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            match entry {
                Entry::Directory(identity) => identity.hash(&mut hasher),
                Entry::File { metadata, .. } => {
                    part.files += 1;
                    stamp(metadata).hash(&mut hasher);
                    let changed = u64::try_from(metadata.ctime()).unwrap_or_default();
                    part.is_recent |= now.saturating_sub(Duration::from_secs(changed)) < RESOLUTION;
                }
            }
            // The order of directory entries doesn't matter.
            part.state = part.state.wrapping_add(hasher.finish());
        };
        let parts =
            tree::walk_in_parallel(root, filter, Detail::Files, self.threads, PartialScan::default, visit);
        let state = parts.iter().fold(0_u64, |state, part| state.wrapping_add(part.state));
        let is_recent = parts.iter().any(|part| part.is_recent);
        self.files = parts.iter().map(|part| part.files).sum();
        self.took = began.elapsed();

        let is_different = std::mem::replace(&mut self.state, state) != state;
        let has_settled = self.settles.take_if(|settles| *settles <= Instant::now()).is_some();
        if is_different && is_recent {
            self.settles = Some(Instant::now() + RESOLUTION);
        }
        if is_different || has_settled { Finding::Changed } else { Finding::Unchanged }
    }
}

/// Returns the metadata that change with the content of a file.
fn stamp(metadata: &Metadata) -> [i64; 6] {
    let number = |unsigned: u64| i64::from_ne_bytes(unsigned.to_ne_bytes());
    [
        number(metadata.ino()),
        number(metadata.size()),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ]
}
