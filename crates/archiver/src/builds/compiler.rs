//! Repeatedly compiles a folder that is being edited. Archives are built in memory or, if they are large, on disk.
//!
//! Only changed files are read and compressed; everything else is taken from the last build. Editors can write at any time,
//! so we should not fail if a file changes or vanishes during a build. Instead, the build will read it again, or else use its
//! last version and report the folder as unsettled. Half-written content must never be published.

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
use crate::codings::encoder::Encoder;
use crate::contents::memory_cache::MemoryCache;
use crate::destination::disk::{MEMORY_ARCHIVE_BYTES_MAX, Space, TemporaryDirectory};
use crate::ground::progress::Progress;
use crate::ground::report::Report;
use crate::routes::listing::Listings;
use crate::settings::cancel::CancelFlag;
use crate::settings::effort::Effort;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::snapshot::{Earlier, KnownFile, Snapshot};
use crate::sources::unreadable::UnreadableFiles;
use crate::sources::writers;

/// Maximum number of attempts for one build if files keep vanishing or do not settle.
const ATTEMPTS_MAX: u32 = 20;

/// Pause between attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(5);

/// Time after which a file is read even though it is still being written. Log files, for example, never
/// settle.
const HELD_BACK_MAX: Duration = Duration::from_secs(2);

/// Time after which we accept that a folder has lost its start page or most of its files.
const UNFINISHED_MAX: Duration = Duration::from_secs(2);

/// Compiles one folder again and again.
///
/// Several threads can build at the same time. The on-disk caches of the options are not used. All contents are stored
/// uncompressed too, to allow the next build to copy them.
pub struct Compiler {
    options: Options,
    /// Holds archives that are too large for memory.
    directory: Arc<TemporaryDirectory>,
    /// Archives up to this size are in memory.
    memory_archive_bytes_max: u64,
    started: AtomicU64,
    results: MemoryCache,
    history: Mutex<History>,
    listings: Mutex<Listings>,
    unreadable: UnreadableFiles,
}

/// Facts about finished builds that the next build needs.
#[derive(Default)]
struct History {
    /// Of all finished builds, the one that started last.
    last: Option<Arc<Snapshot>>,
    /// Files that are being written, with the time when we first noticed.
    unsettled: BTreeMap<Box<[u8]>, Instant>,
    /// Set while the folder lacks its start page or most of its files.
    unfinished_since: Option<Instant>,
}

/// A finished build.
#[derive(Debug)]
#[non_exhaustive]
pub struct Build {
    /// Builds are numbered in the order in which they start, from 1.
    pub number: u64,
    /// The archive, either in memory or on disk. In memory, it can no longer be changed by any
    /// process; on disk, this is only true for other users.
    pub archive: File,
    /// The report.
    pub report: Report,
    /// The files that the archive was built from.
    pub files: BuiltFiles,
    /// Number of compressed contents that a [`Effort::Quick`] build did without.
    pub deferred: u64,
    /// Files that are currently being written, sorted. The archive contains their last versions, or none if they are new, so
    /// callers should build again soon.
    pub unsettled: Vec<String>,
}

impl Compiler {
    /// Creates a compiler for the folder in `options`.
    ///
    /// Large archives will be stored in the temporary directory given by the environment.
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

    /// Puts large archives into this directory instead.
    #[must_use]
    pub fn with_temporary_directory(self, directory: TemporaryDirectory) -> Compiler {
        Compiler { directory: Arc::new(directory), ..self }
    }

    /// Starts from the last archive of another process that compiled this folder. For files that are being replaced or
    /// written, the next build will use the versions in that archive.
    ///
    /// # Errors
    ///
    /// Returns an error if the archive cannot be opened or is damaged. The compiler will then start from
    /// scratch.
    pub fn resume(&self, archive: &File) -> Result<(), Error> {
        let failed = |source| Error::ReadBack { path: self.options.sources.clone(), source };
        let archive = Archive::from_file(archive, Loading::Mapped).map_err(failed)?;
        let snapshot = resume::snapshot(archive).map_err(|corrupt| failed(OpenError::Corrupt(corrupt)))?;
        // A build may have finished meanwhile. It knows more than the old archive.
        let mut history = self.history();
        if history.last.is_none() {
            history.last = Some(Arc::new(snapshot));
        }
        Ok(())
    }

    /// Compiles the folder into memory, or onto disk when the archive is larger than [`MEMORY_ARCHIVE_BYTES_MAX`]. If
    /// writing to disk is not possible, then even large archives are kept in memory and the report will contain a warning.
    ///
    /// # Errors
    ///
    /// See [`Error`] for details. When the build is canceled, this will be [`Error::Canceled`]. Contents that have already
    /// been compressed are kept for the next build.
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
            // Another thread may have finished a build in the meantime, so each attempt needs to start from the
            // current state.
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
                // For example, the disk may be full. Try the same in memory, without counting this as an
                // attempt.
                Err(Error::Write { path, source: WriteError::Io(error) }) if path == space.directory() => {
                    space.abandon_disk(&error);
                    continue;
                }
                // No need to wait: the next attempt leaves these files out.
                Err(Error::Unreadable { .. }) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    cancel.check()?;
                    continue;
                }
                // Keep the last archive for now. Once the folder has stayed like this for a while, `may_be_unfinished` will
                // be false.
                Err(error) if error.is_unfinished() => {
                    self.history().unfinished_since.get_or_insert_with(Instant::now);
                    return Err(error);
                }
                // A file changed or vanished while it was being read, so hold it back in the next
                // attempt.
                Err(error) if error.is_transient() && attempts < ATTEMPTS_MAX => {
                    unreliable.extend(self.path_of(&error));
                }
                Err(error) => {
                    // Any other error implies that the folder is not empty, so we have to reset the clock. We should not do this
                    // for a canceled build, because it may not have got that far.
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

    /// Returns the path, relative to the source folder, of the file that made an attempt fail.
    fn path_of(&self, error: &Error) -> Option<Box<[u8]>> {
        let (Error::Changing { path } | Error::Read { path, .. }) = error else { return None };
        Some(path.strip_prefix(&self.options.sources).ok()?.as_os_str().as_bytes().into())
    }

    /// Returns `true` unless the folder has been incomplete for so long that this is probably
    /// intended.
    fn may_be_unfinished(&self) -> bool {
        self.history().unfinished_since.is_none_or(|since| since.elapsed() < UNFINISHED_MAX)
    }

    /// Returns the files that have been held back for long enough.
    fn overdue(&self) -> BTreeSet<Box<[u8]>> {
        let history = self.history();
        let overdue = history.unsettled.iter().filter(|(_, since)| since.elapsed() > HELD_BACK_MAX);
        overdue.map(|(path, _)| path.clone()).collect()
    }

    /// Records a finished build and returns it.
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

        // Files that remain unsettled should keep the time when we first saw them like this, otherwise they would never
        // become overdue.
        let unsettled = std::mem::take(&mut sources.unsettled);
        let mut unsettled = unsettled.into_inner().unwrap_or_else(PoisonError::into_inner);
        unsettled.extend(unreliable);
        let mut history = self.history();
        history.unsettled.retain(|path, _| unsettled.contains(path));
        for path in &unsettled {
            history.unsettled.entry(path.clone()).or_insert_with(Instant::now);
        }
        // Builds may overtake each other, so we have to make sure that the next one is based on the build
        // that started last.
        if history.last.as_ref().is_none_or(|last| last.number < number) {
            self.results.settle(&snapshot);
            history.last = Some(snapshot);
            history.unfinished_since = None;
        }
        drop(history);

        // Dropping these will unmap the archive of the last build. Do this in the background, as it may take a while.
        drop_in_background((earlier, sources, routes));

        let unsettled = unsettled.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        Ok(Build { number, archive, report, files: BuiltFiles(files), deferred, unsettled })
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        // A poisoned lock is harmless because the listings are always replaced as a whole.
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // A poisoned lock is harmless because each update leaves a consistent history.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops values on another thread.
fn drop_in_background<T: Send + 'static>(values: T) {
    // When the thread cannot be spawned, they are dropped right here.
    let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(values));
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler").field("sources", &self.options.sources).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
