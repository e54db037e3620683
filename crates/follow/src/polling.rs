//! Polling: scans the folder and compares the metadata of all files with that of the last scan.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::tree::{Detail, Entry, Filter, Identity, Walk};

/// Worst-case clock resolution of a file system. When a file changes twice within this time, its metadata may stay
/// the same.
const RESOLUTION: Duration = Duration::from_secs(2);

/// Length of the longest clock tick. Most kernels assign the same time to all changes within one
/// tick.
const TICK_MAX: Duration = Duration::from_millis(10);

/// If the change time of a file is further in the future than this, we assume that the clock has
/// been set back since.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// Default polling interval, since a multiple of the duration of a scan. This way, polling takes at most 2 % of a processor,
/// even if a scan takes longer than the last one or is followed by other work.
const INTERVAL_PER_SCAN: u32 = 60;

/// Minimum of the default interval.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(250);

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// No file has changed.
    Unchanged,
    /// Files may have changed.
    Changed,
}

/// A hash of the paths and metadata of files, in any order.
///
/// If nothing has changed, two scans of a folder will return the same state. It can also be computed by callers from files that
/// they have read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilesState(u64);

/// The part of a file's metadata that changes with its content.
#[derive(Debug, Clone, Copy, Hash)]
pub struct FileMetadata {
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Inode change time in nanoseconds since 1970.
    pub changed_ns: i128,
}

impl FilesState {
    /// Adds a file. `path` must be relative to the folder.
    pub fn add(&mut self, path: &Path, metadata: &FileMetadata) {
        let mut hasher = DefaultHasher::new();
        path.as_os_str().hash(&mut hasher);
        metadata.hash(&mut hasher);
        self.merge(FilesState(hasher.finish()));
    }

    fn merge(&mut self, other: FilesState) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl FileMetadata {
    fn of(metadata: &Metadata) -> FileMetadata {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        FileMetadata {
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// State of a folder at the last scan.
pub(crate) struct Poller {
    /// Interval requested by the caller.
    interval: Option<Duration>,
    /// Number of threads to scan with.
    threads: usize,
    state: FilesState,
    /// Hash of the paths and identities of all directories.
    directories: u64,
    /// Whether `state` covers everything that the last scan has found.
    is_about_files: bool,
    files: usize,
    /// Duration of the last scan.
    took: Duration,
    /// Set if a file was only just modified: until then, it could change again without new metadata.
    settles: Option<Instant>,
}

/// A scan, or the part of it made by one thread.
#[derive(Default)]
struct PartialScan {
    state: FilesState,
    directories: u64,
    files: usize,
    /// Whether a file was just modified, compared with the resolution of its file system.
    is_recent: bool,
    /// Whether a file may have been modified in the clock tick in which the scan started, or even later.
    is_fresh: bool,
}

impl PartialScan {
    fn add_directory(&mut self, path: &Path, identity: Identity) {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        identity.hash(&mut hasher);
        // Wrapping addition makes this independent of the order of directory entries.
        self.directories = self.directories.wrapping_add(hasher.finish());
    }

    /// Adds a file. `path` must be relative to the folder, while `now` is the start of the scan as time since
    /// 1970.
    fn add_file(&mut self, path: &Path, metadata: &Metadata, now: Duration) {
        self.files += 1;
        self.state.add(path, &FileMetadata::of(metadata));

        let changed = time(metadata.ctime(), metadata.ctime_nsec());
        self.is_recent |= now.saturating_sub(changed) < RESOLUTION;
        self.is_fresh |= (now.saturating_sub(TICK_MAX)..now + SKEW_MAX).contains(&changed);
    }

    fn merge(mut self, other: &PartialScan) -> PartialScan {
        self.state.merge(other.state);
        self.directories = self.directories.wrapping_add(other.directories);
        self.files += other.files;
        self.is_recent |= other.is_recent;
        self.is_fresh |= other.is_fresh;
        self
    }
}

impl Poller {
    /// Makes the first scan. All scans use a single thread.
    pub(crate) fn new(root: &Path, filter: &Filter, interval: Option<Duration>) -> Poller {
        Poller::with_threads(1, root, filter, interval)
    }

    /// Makes the first scan.
    ///
    /// All scans use up to this many threads.
    pub(crate) fn with_threads(
        threads: usize,
        root: &Path,
        filter: &Filter,
        interval: Option<Duration>,
    ) -> Poller {
        let mut poller = Poller {
            interval,
            threads,
            state: FilesState::default(),
            directories: 0,
            is_about_files: false,
            files: 0,
            took: Duration::ZERO,
            settles: None,
        };
        poller.scan(root, filter);
        poller
    }

    /// Returns the number of files found by the last scan.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// The state of all files. If the state alone would be meaningless, this is `None`.
    ///
    /// This is the case if the last scan has found other directories, or a file that could change without new metadata.
    pub(crate) fn state(&self) -> Option<FilesState> {
        self.is_about_files.then_some(self.state)
    }

    /// Returns how long to wait until the next scan.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.unwrap_or_else(|| INTERVAL_MIN.max(self.took * INTERVAL_PER_SCAN))
    }

    /// Scans the folder and compares it with the last scan.
    ///
    /// Files that could have changed without new metadata are considered changed.
    pub(crate) fn scan(&mut self, root: &Path, filter: &Filter) -> Finding {
        self.scan_at(SystemTime::now(), root, filter)
    }

    /// Same as [`scan`](Self::scan), but at a given time.
    fn scan_at(&mut self, now: SystemTime, root: &Path, filter: &Filter) -> Finding {
        let began = Instant::now();
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let visit = |part: &mut PartialScan, path: &Path, entry: Entry<'_>| match entry {
            Entry::Directory(identity) => part.add_directory(path, identity),
            Entry::File { metadata, .. } => {
                part.add_file(path.strip_prefix(root).unwrap_or(path), metadata, now);
            }
        };
        let walk = Walk { root, filter, detail: Detail::Files };
        let parts = walk.run_in_parallel(self.threads, PartialScan::default, visit);
        self.took = began.elapsed();

        self.compare(&parts.iter().fold(PartialScan::default(), PartialScan::merge))
    }

    /// Compares a scan with the last one, and remembers it for the next.
    fn compare(&mut self, scan: &PartialScan) -> Finding {
        let has_other_directories = self.directories != scan.directories;
        let is_different = self.state != scan.state || has_other_directories;
        self.directories = scan.directories;
        self.state = scan.state;
        self.files = scan.files;

        // A file that was only just modified could change once more without new metadata. We should report it again
        // after that time.
        let has_settled = self.settles.take_if(|settles| *settles <= Instant::now()).is_some();
        if is_different && scan.is_recent {
            self.settles = Some(Instant::now() + RESOLUTION);
        }
        self.is_about_files = !has_other_directories && !has_settled && !scan.is_fresh;
        if is_different || has_settled || scan.is_fresh { Finding::Changed } else { Finding::Unchanged }
    }
}

/// Returns a time since 1970, or zero if it's earlier.
fn time(seconds: i64, nanoseconds: i64) -> Duration {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or_default())
}

#[cfg(test)]
mod tests;
