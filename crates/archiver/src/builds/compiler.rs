//! Compiles a folder that is being edited again and again, each time into memory, or on disk if the archive is large.
//!
//! Only changed files are read and compressed: everything else comes from the last build. An editor may be writing at any
//! time, so a file that changes or vanishes during a build is no error. The build reads it again, or takes its last version
//! and reports the folder as unsettled; it never publishes half-written content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use cannery_archive::{Archive, Loading, OpenError, WriteError};

use crate::Built;
use crate::builds::changes::BuiltFiles;
use crate::builds::resume;
use crate::builds::session::Session;
use crate::contents::memory_cache::MemoryCache;
use crate::destination::disk::{MEMORY_ARCHIVE_BYTES_MAX, Space, TemporaryDirectory};
use crate::ground::progress::Progress;
use crate::ground::report::Report;
use crate::routes::listing::Listings;
use crate::settings::cancel::CancelFlag;
use crate::settings::effort::Effort;
use crate::settings::error::Error;
use crate::settings::options::{Encoder, Options};
use crate::sources::snapshot::{Earlier, KnownFile, Snapshot};
use crate::sources::unreadable::UnreadableFiles;
use crate::sources::writers;

/// Maximum number of attempts of a build in which files vanish, or don't settle.
const ATTEMPTS_MAX: u32 = 20;

/// Pause between two attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(5);

/// A file that is still being written after this time is read as it is.
const HELD_BACK_MAX: Duration = Duration::from_secs(2);

/// A folder that has lost its start page, or most of its files, is taken as it is after this time.
const UNFINISHED_MAX: Duration = Duration::from_secs(2);

/// Compiles one folder again and again.
///
/// Builds may run at the same time on several threads. The caches of the options aren't used, and contents are always
/// stored uncompressed too.
pub struct Compiler {
    options: Options,
    /// For large archives.
    directory: Arc<TemporaryDirectory>,
    /// A larger archive is on disk.
    memory_archive_bytes_max: u64,
    started: AtomicU64,
    results: MemoryCache,
    history: Mutex<History>,
    listings: Mutex<Listings>,
    unreadable: UnreadableFiles,
}

/// The finished builds, as far as the next one needs them.
#[derive(Default)]
struct History {
    /// The finished build that started last.
    last: Option<Arc<Snapshot>>,
    /// Files that are being written, and since when.
    unsettled: BTreeMap<Box<[u8]>, Instant>,
    /// Since when the folder lacks its start page, or most of its files.
    unfinished_since: Option<Instant>,
}

/// A finished build.
#[derive(Debug)]
pub struct Build {
    /// Builds are numbered in the order in which they start, from 1.
    pub number: u64,
    /// The archive, in memory or on disk. No process can change one in memory, and no other user one on disk.
    pub archive: File,
    /// The report.
    pub report: Report,
    /// The files that the archive was built from.
    pub files: BuiltFiles,
    /// Number of compressed contents that a [`Effort::Quick`] build did without.
    pub deferred: u64,
    /// Files that are being written, sorted: the archive has their last versions, or doesn't have them. Build again soon.
    pub unsettled: Vec<String>,
}

impl Compiler {
    /// Creates a compiler for the folder of these options. Large archives are in the temporary directory of the environment.
    #[must_use]
    pub fn new(mut options: Options) -> Compiler {
        options.encoders.insert(Encoder::Identity);
        options.compress_cache = None;
        options.sources_cache = None;
        Compiler {
            options,
            directory: Arc::new(TemporaryDirectory::from_environment()),
            memory_archive_bytes_max: MEMORY_ARCHIVE_BYTES_MAX,
            started: AtomicU64::new(0),
            results: MemoryCache::default(),
            history: Mutex::default(),
            listings: Mutex::default(),
            unreadable: UnreadableFiles::default(),
        }
    }

    /// Lets large archives be in this directory.
    #[must_use]
    pub fn with_temporary_directory(self, directory: TemporaryDirectory) -> Compiler {
        Compiler { directory: Arc::new(directory), ..self }
    }

    /// Starts from the last archive of another compiler of this folder, which has ended: files that are being replaced or written
    /// keep the versions that it has.
    ///
    /// # Errors
    /// The archive can't be opened or is damaged. The compiler then starts without it.
    pub fn resume(&self, archive: &File) -> Result<(), Error> {
        let failed = |source| Error::ReadBack { path: self.options.sources.clone(), source };
        let archive = Archive::from_file(archive, Loading::Mapped).map_err(failed)?;
        let snapshot = resume::snapshot(archive).map_err(|corrupt| failed(OpenError::Corrupt(corrupt)))?;
        let mut history = self.history();
        if history.last.is_none() {
            history.last = Some(Arc::new(snapshot));
        }
        Ok(())
    }

    /// Compiles the folder into memory, or on disk if the archive is larger than [`MEMORY_ARCHIVE_BYTES_MAX`]. If the disk
    /// can't be written, it is in memory too, and the report has a warning.
    ///
    /// # Errors
    /// See [`Error`]. A canceled build returns [`Error::Canceled`]; what it has compressed is kept for the next one.
    pub fn build(
        &self,
        effort: Effort,
        cancel: &CancelFlag,
        progress: &dyn Progress,
    ) -> Result<Build, Error> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let mut unreliable = BTreeSet::new();
        let mut attempts = 1;
        let mut space = Space::new(Arc::clone(&self.directory), self.memory_archive_bytes_max);

        loop {
            let snapshot = self.history().last.clone();
            let mut session = Session {
                effort,
                cancel,
                results: &self.results,
                space: space.clone(),
                listings: self.listings().clone(),
                earlier: Earlier { snapshot, overdue: self.overdue(), ..Earlier::default() },
                waits: attempts == 1,
                unreadable: self.unreadable.clone(),
                may_be_unfinished: self.may_be_unfinished(),
                unreliable: &unreliable,
            };

            match crate::build(&self.options, Some(&mut session), progress) {
                Ok(built) => {
                    let Session { listings, earlier, .. } = session;
                    *self.listings() = listings.finish();
                    return self.finish(number, built, earlier, unreliable);
                }
                // The disk is full, for example.
                Err(Error::Write { path, source: WriteError::Io(error) }) if path == space.directory() => {
                    space.abandon_disk(&error);
                    continue;
                }
                // At once: the next attempt is made without them.
                Err(Error::Unreadable { .. }) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    cancel.check()?;
                    continue;
                }
                Err(error) if error.is_unfinished() => {
                    self.history().unfinished_since.get_or_insert_with(Instant::now);
                    return Err(error);
                }
                Err(error) if error.is_transient() && attempts < ATTEMPTS_MAX => {
                    unreliable.extend(self.path_of(&error));
                }
                Err(error) => {
                    // A folder with another fault isn't empty. A canceled build may not have seen it.
                    if !matches!(error, Error::Canceled) {
                        self.history().unfinished_since = None;
                    }
                    return Err(error);
                }
            }

            attempts += 1;
            cancel.check()?;
            sleep(ATTEMPT_INTERVAL);
        }
    }

    /// Returns the path of the file that made an attempt fail, relative to the source folder.
    fn path_of(&self, error: &Error) -> Option<Box<[u8]>> {
        let (Error::Changing { path } | Error::Read { path, .. }) = error else { return None };
        Some(path.strip_prefix(&self.options.sources).ok()?.as_os_str().as_bytes().into())
    }

    /// Returns `true` unless the folder has been incomplete for long enough to be meant so.
    fn may_be_unfinished(&self) -> bool {
        self.history().unfinished_since.is_none_or(|since| since.elapsed() < UNFINISHED_MAX)
    }

    /// Returns the files that have been held back for long enough.
    fn overdue(&self) -> BTreeSet<Box<[u8]>> {
        let history = self.history();
        let overdue = history.unsettled.iter().filter(|(_, since)| since.elapsed() > HELD_BACK_MAX);
        overdue.map(|(path, _)| path.clone()).collect()
    }

    /// Records a finished build, and returns it.
    fn finish(
        &self,
        number: u64,
        built: Built,
        earlier: Earlier,
        unreliable: BTreeSet<Box<[u8]>>,
    ) -> Result<Build, Error> {
        let Built { file: archive, report, mut sources, known, bodies, deferred, has_start_page, routes } =
            built;
        let read_back = |source| Error::ReadBack { path: self.options.sources.clone(), source };
        let now = SystemTime::now();
        let files = (0..).zip(&sources.files).zip(known).map(|((id, file), (stamp, facts))| {
            let is_settled = !writers::is_recent(&stamp, now);
            let coding = sources.precompressed.get(&id).map(|precompressed| precompressed.coding);
            (file.path.clone(), KnownFile { stamp, facts, is_settled, coding })
        });
        let files = Arc::new(files.collect());
        let snapshot = Arc::new(Snapshot {
            number,
            files: Arc::clone(&files),
            archive: Arc::new(Archive::from_file(&archive, Loading::Mapped).map_err(read_back)?),
            bodies,
            has_start_page,
            source_bytes: sources.bytes(),
        });

        let unsettled = std::mem::take(&mut sources.unsettled);
        let mut unsettled = unsettled.into_inner().unwrap_or_else(PoisonError::into_inner);
        unsettled.extend(unreliable);
        let mut history = self.history();
        history.unsettled.retain(|path, _| unsettled.contains(path));
        for path in &unsettled {
            history.unsettled.entry(path.clone()).or_insert_with(Instant::now);
        }
        // A build that has started later may have finished before.
        if history.last.as_ref().is_none_or(|last| last.number < number) {
            self.results.settle(&snapshot);
            history.last = Some(snapshot);
            history.unfinished_since = None;
        }
        drop(history);
        // The caller need not wait until the archive of the last build is unmapped.
        drop_in_background((earlier, sources, routes));

        let unsettled = unsettled.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        Ok(Build { number, archive, report, files: BuiltFiles(files), deferred, unsettled })
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        // A set is replaced as a whole.
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Each change is complete, even if another thread has panicked.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops values in another thread.
fn drop_in_background<T: Send + 'static>(values: T) {
    // Without a thread, they are dropped here.
    let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(values));
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler").field("sources", &self.options.sources).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
