//! Recompiles the folder after each change and publishes the result.
//!
//! Each change is followed by a quick build, in which nothing new is compressed. Once the folder has been quiet for a moment, a
//! full build is made by a low-priority thread in the background. When the folder changes before that is done, the full build
//! is canceled and rescheduled, but only until its deadline; otherwise, a folder that changes all the time would never be
//! compressed.
//!
//! If a build fails, we keep serving the last one. The deadline stays the same as well, but nothing will be compressed until
//! the folder can be compiled again.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cannery_archiver::{Build, BuiltFiles, CancelFlag, Change, Compiler, Effort, Error};
use cannery_follow::{Event, FileMetadata, FilesState, Follower, PollingReason};

use crate::message::{Message, ScanResult};

/// Initial and maximum pause before we recompile a folder that was being written to.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Pause between a change and the background build, during which the browser can load the changed page and the editor can save
/// another file.
const COMPRESS_DELAY: Duration = Duration::from_millis(500);

/// Upper limit for the delay of the background build by changes. A canceled build keeps what it has
/// compressed so far.
const COMPRESS_DELAY_MAX: Duration = Duration::from_secs(10);

/// Maximum delay of a build that looks like a step of saving a file: editors and build tools can move the old version away,
/// write the new one, and then remove the old one. Browsers should not be reloaded after each of these steps.
const SAVE_MAX: Duration = Duration::from_millis(300);

/// If more files change at a time, it's not just a single save.
const SAVE_CHANGES_MAX: usize = 8;

/// Pause before a folder is compiled again after it has lost its start page or most of its files.
const UNFINISHED_PAUSE: Duration = Duration::from_millis(200);

/// Receives a folder's builds and events.
pub trait BuildSink {
    /// Why the updates end, for example because the server is stopping.
    type Error;

    /// Serves an archive. All requests that arrive after this returns must be answered from it.
    ///
    /// # Errors
    ///
    /// Returning an error will end the updates.
    fn publish(&mut self, archive: &File) -> Result<(), Self::Error>;

    /// Scans the folder before a build, as scans may find files that builds leave out.
    fn scan(&mut self) {}

    /// Handles an event.
    ///
    /// # Errors
    ///
    /// Returning an error will end the updates.
    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), Self::Error>;
}

/// Something happened to the folder or its builds.
#[derive(Debug)]
pub enum FolderEvent<'a> {
    /// A quick build is served.
    Rebuilt {
        /// The build.
        build: &'a Build,
        /// Files that differ from the last build. There may be none.
        changes: &'a [Change],
        /// Time since the change.
        took: Duration,
    },
    /// A build is served that has all of its contents compressed.
    Compressed {
        /// The build.
        build: &'a Build,
        /// Files that differ from the last build. Usually, there are none.
        changes: &'a [Change],
        /// Duration of the build.
        took: Duration,
    },
    /// A build failed, so the last one is still being served.
    Failed(&'a Error),
    /// The compression thread could not be started, so new contents will be served uncompressed until the
    /// next change.
    CompressionNotStarted(&'a io::Error),
    /// From now on, we have to poll the folder.
    Polling {
        /// Time between two scans.
        interval: Duration,
        /// Why we cannot rely on events.
        reason: &'a PollingReason,
    },
}

/// Whether contents are compressed after each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Yes, with builds in the background.
    InBackground,
    /// No, all contents are served uncompressed.
    Off,
}

/// Recompiles the folder after each change, until the server stops.
pub struct Updater<S> {
    compiler: Arc<Compiler>,
    compression: Compression,
    sink: S,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    /// Dropping this ends following.
    _follower: Option<Follower>,
    current: CurrentBuild,
    /// When the last quick build started, apart from the very first one.
    last_build: Option<Instant>,
    /// Whether to scan the folder before each build.
    scans_first: bool,
    /// The running background build.
    background: Option<BackgroundBuild>,
    /// A build that should be made even if no change is reported.
    retry: Option<Retry>,
    /// Time at which we began to hold back changes. We do this if they may be steps of saving a file.
    saving_since: Option<Instant>,
    /// Requests that wait until these changes are no longer held back.
    waiting: Vec<Sender<()>>,
    /// Digest of the last build that was reported as compressed.
    complete_digest: Option<String>,
    /// The next background build. A canceled build stays planned.
    planned: Option<PlannedBuild>,
    /// Tells us if a background build could succeed.
    folder: FolderState,
}

/// Whether the folder can be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderState {
    Compiles,
    /// The last quick build failed. Until the next change, all others will fail too.
    Fails,
}

/// A background build that has not started yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlannedBuild {
    at: Instant,
    /// Changes cancel and defer the build until this time.
    deadline: Instant,
}

/// A running background build.
struct BackgroundBuild {
    plan: PlannedBuild,
    cancel: CancelFlag,
    state: BackgroundState,
}

/// Whether a running background build still has the newest state of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackgroundState {
    Current,
    /// A quick build has started since. Anything that this build compresses will be reused by the next
    /// background build.
    Superseded,
    /// A quick build has started since, but the deadline of this one had not passed at that time.
    Canceled,
}

/// A build planned because some files were still being written.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    /// The pause before this build. It doubles each time.
    pause: Duration,
}

/// Which builds that look like a step of saving a file are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBack {
    /// All of them, as no page is waiting.
    Steps,
    /// Those that lack a file of the last build. A page is waiting for this build, but it should not be told that the file
    /// is missing.
    Removals,
}

/// The build being served.
struct CurrentBuild {
    number: u64,
    digest: String,
    files: BuiltFiles,
}

impl<S: BuildSink> Updater<S> {
    /// Creates an updater. `first` must already be served.
    pub(crate) fn new(
        compiler: Compiler,
        first: &Build,
        compression: Compression,
        sink: S,
        channel: (Sender<Message>, Receiver<Message>),
        follower: Option<Follower>,
    ) -> Updater<S> {
        let (sender, messages) = channel;
        let current = CurrentBuild {
            number: first.number,
            digest: first.report.digest.clone(),
            files: first.files.clone(),
        };

        let mut updater = Updater {
            compiler: Arc::new(compiler),
            compression,
            sink,
            messages,
            sender,
            _follower: follower,
            current,
            last_build: None,
            scans_first: false,
            background: None,
            retry: None,
            saving_since: None,
            waiting: Vec::new(),
            complete_digest: None,
            planned: Some(PlannedBuild::now()),
            folder: FolderState::Compiles,
        };

        updater.await_unsettled(first);
        updater
    }

    /// Serves every change until the sink returns an error.
    ///
    /// # Errors
    ///
    /// Returns that error.
    pub fn run(&mut self) -> Result<(), S::Error> {
        while self.handle_next()?.is_continue() {}
        Ok(())
    }

    /// Waits for the next message or planned build and handles it.
    fn handle_next(&mut self) -> Result<ControlFlow<()>, S::Error> {
        // Messages might keep us busy forever, so check this before we wait for one.
        if self.has_overdue_build() {
            self.compress()?;
        }

        let message = match self.next_build() {
            Some(at) => self.messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };

        match message {
            Ok(Message::Folder(Event::Started, _)) => {}
            Ok(Message::Folder(Event::Changed, since)) => {
                // A build that started after the change has seen it already.
                if !self.has_built_since(since) {
                    if self.scans_first {
                        self.sink.scan();
                    }
                    self.update(since, HeldBack::Steps)?;
                }
            }
            Ok(Message::Folder(Event::Polling { interval, reason }, _)) => {
                self.sink.handle(FolderEvent::Polling { interval, reason: &reason })?;
            }
            Ok(Message::Compressed(result, took)) => self.on_compressed(result, took)?,
            // A page in a browser is waiting for this. There may be no receiver by now if the
            // page has given up in the meantime.
            Ok(Message::Build(done, found)) => {
                self.update_to(&found)?;
                self.waiting.push(done);
            }
            Ok(Message::Finish(done)) => self.waiting.push(done),
            Err(RecvTimeoutError::Timeout) if self.retry.is_some() => {
                self.update(Instant::now(), HeldBack::Steps)?;
            }
            Err(RecvTimeoutError::Timeout) => self.compress()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(ControlFlow::Break(())),
        }

        self.release_waiting();
        Ok(ControlFlow::Continue(()))
    }

    /// Lets requests go on, unless changes are held back.
    fn release_waiting(&mut self) {
        let is_held_back = self.saving_since.is_some_and(|since| since.elapsed() < SAVE_MAX);
        if !is_held_back {
            for done in self.waiting.drain(..) {
                let _ = done.send(());
            }
        }
    }

    /// Determines the time of the next build if no change is reported. This may be a retry, or a build
    /// in the background.
    fn next_build(&self) -> Option<Instant> {
        match self.retry {
            Some(retry) => Some(retry.at),
            None if self.can_compress() => self.planned.map(|planned| planned.at),
            None => None,
        }
    }

    /// Returns `true` if a background build must start even if messages are waiting.
    fn has_overdue_build(&self) -> bool {
        self.can_compress() && self.planned.is_some_and(|planned| planned.deadline <= Instant::now())
    }

    /// Whether a background build may start.
    ///
    /// While the folder is broken, there is no point in trying.
    fn can_compress(&self) -> bool {
        self.compression == Compression::InBackground
            && self.background.is_none()
            && self.folder == FolderState::Compiles
    }

    /// Compiles the folder and serves the result if it is different from the last one. `since` is the
    /// time of the change. Returns `false` if the build failed or is held back.
    fn update(&mut self, since: Instant, held_back: HeldBack) -> Result<bool, S::Error> {
        self.last_build = Some(Instant::now());
        self.supersede_background();

        let build = match self.compiler.build(Effort::Quick, &CancelFlag::default(), &()) {
            Ok(build) => build,
            Err(error) if error.is_unfinished() => {
                // A program is probably replacing the folder, so we should keep quiet about it for now.
                self.retry_at(Instant::now() + UNFINISHED_PAUSE);
                return Ok(false);
            }
            Err(error) => {
                self.saving_since = None;
                if error.is_transient() {
                    self.retry_later();
                } else {
                    // This problem will not go away by itself, so there is no point in trying again before
                    // the next change.
                    self.retry = None;
                    self.folder = FolderState::Fails;
                }
                self.sink.handle(FolderEvent::Failed(&error))?;
                return Ok(false);
            }
        };

        self.folder = FolderState::Compiles;
        self.await_unsettled(&build);
        // Quick builds use cached compressed contents, so they may be complete already (e.g. after a change has been undone).
        let is_complete = self.complete_digest.as_ref() == Some(&build.report.digest);

        let changes = build.files.changes_since(&self.current.files);
        if self.await_save(&build, &changes, held_back) {
            return Ok(false);
        }
        self.serve(&build)?;
        self.sink.handle(FolderEvent::Rebuilt { build: &build, changes: &changes, took: since.elapsed() })?;
        self.planned = (!is_complete).then(|| PlannedBuild::after_change(self.planned));
        Ok(true)
    }

    /// Compiles the folder, unless the last build succeeded and already matches what a scan has found.
    fn update_to(&mut self, found: &ScanResult) -> Result<(), S::Error> {
        // After a failure, there must be another build even for the served files, because it tells that the folder compiles again.
        let is_up_to_date = self.folder == FolderState::Compiles && self.serves(found);
        if self.has_built_since(found.since) || is_up_to_date {
            return Ok(());
        }
        let before = self.current.files.clone();
        // The user has asked for a page and expects to see the new version.
        let is_served = self.update(found.since, HeldBack::Removals)?;

        let is_same = self.current.files.changes_since(&before).is_empty();
        // The scan sees files that are left out of builds, so the two will never match. We need to scan before each build from now
        // on; otherwise, the first request after each build would cause another one.
        self.scans_first |= is_served && is_same && found.state.is_some() && !self.serves(found);
        Ok(())
    }

    /// Whether the served build consists of exactly those files that a scan has found.
    fn serves(&self, found: &ScanResult) -> bool {
        found.state.is_some_and(|state| state == files_state(&self.current.files))
    }

    /// Whether the last quick build started after this time and therefore includes all earlier changes.
    fn has_built_since(&self, time: Instant) -> bool {
        self.last_build.is_some_and(|began| began > time)
    }

    /// Marks the running background build as outdated and, unless its deadline has passed, cancels it
    /// as well.
    fn supersede_background(&mut self) {
        let Some(background) = &mut self.background else { return };
        if background.plan.deadline <= Instant::now() {
            background.state = BackgroundState::Superseded;
        } else if background.state == BackgroundState::Current {
            background.state = BackgroundState::Canceled;
            background.cancel.cancel();
            self.planned = Some(background.plan);
        }
    }

    /// Starts the planned background build, which compresses everything.
    fn compress(&mut self) -> Result<(), S::Error> {
        let Some(plan) = self.planned.take() else { return Ok(()) };
        let cancel = CancelFlag::default();
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let flag = cancel.clone();

        let run = move || {
            lower_priority();
            let started = Instant::now();
            let build = || compiler.build(Effort::Full, &flag, &());
            // Panics have already been reported by the panic hook. The next change will lead to
            // another attempt.
            let result = catch_unwind(AssertUnwindSafe(build)).unwrap_or(Err(Error::Canceled));
            // Fails only if the updater is gone.
            let _ = sender.send(Message::Compressed(result, started.elapsed()));
        };

        match thread::Builder::new().name("compress".into()).spawn(run) {
            Ok(_) => {
                self.background = Some(BackgroundBuild { plan, cancel, state: BackgroundState::Current });
                Ok(())
            }
            Err(error) => self.sink.handle(FolderEvent::CompressionNotStarted(&error)),
        }
    }

    fn on_compressed(&mut self, result: Result<Build, Error>, took: Duration) -> Result<(), S::Error> {
        let state = self.background.take().map(|background| background.state);
        let is_newest = state == Some(BackgroundState::Current);

        match result {
            Ok(build) if is_newest => {
                self.await_unsettled(&build);
                let changes = build.files.changes_since(&self.current.files);
                // After the save, a quick build will plan another background build.
                if self.await_save(&build, &changes, HeldBack::Steps) {
                    return Ok(());
                }
                self.serve(&build)?;
                self.complete_digest = Some(build.report.digest.clone());
                self.sink.handle(FolderEvent::Compressed { build: &build, changes: &changes, took })
            }
            Ok(build) => self.serve_compressed(&build),
            Err(Error::Canceled) => Ok(()),
            // A newer build has been served, or has reported an error itself.
            Err(_) if !is_newest => Ok(()),
            // The next quick build will find out if the folder is still changing.
            Err(error) if error.is_transient() || error.is_unfinished() => {
                self.retry_later();
                Ok(())
            }
            Err(error) => {
                // This problem will not go away by itself, so there is no point in trying again before the
                // next change.
                self.retry = None;
                self.sink.handle(FolderEvent::Failed(&error))
            }
        }
    }

    /// Serves a complete build even if a quick build was started later. This must only be done when the latter has
    /// failed. The failure will still be reported.
    fn serve_compressed(&mut self, build: &Build) -> Result<(), S::Error> {
        let is_newest = build.number > self.current.number;
        if is_newest && build.files.changes_since(&self.current.files).is_empty() {
            self.serve(build)?;
        }
        Ok(())
    }

    /// Serves a build, unless its archive is being served already.
    fn serve(&mut self, build: &Build) -> Result<(), S::Error> {
        if self.current.digest != build.report.digest {
            self.sink.publish(&build.archive)?;
        }

        self.current = CurrentBuild {
            number: build.number,
            digest: build.report.digest.clone(),
            files: build.files.clone(),
        };
        Ok(())
    }

    /// Plans another build if files were still being written.
    fn await_unsettled(&mut self, build: &Build) {
        if build.unsettled.is_empty() {
            self.retry = None;
        } else {
            self.retry_later();
        }
    }

    /// Whether these changes may be steps of saving a file. If so, another build is planned to find out.
    fn await_save(&mut self, build: &Build, changes: &[Change], held_back: HeldBack) -> bool {
        // Either a file was removed or a new file is named after another one. Both are typical of editors that use a temporary file
        // for saving.
        let is_step = |change: &Change| {
            change.bytes_after.is_none()
                || (held_back == HeldBack::Steps
                    && change.bytes_before.is_none()
                    && is_companion(&build.files, &change.path))
        };
        if changes.len() > SAVE_CHANGES_MAX || !changes.iter().any(is_step) {
            self.saving_since = None;
            return false;
        }

        // Real removals look exactly the same, so we must not hold them back forever.
        let end = *self.saving_since.get_or_insert_with(Instant::now) + SAVE_MAX;
        if end <= Instant::now() {
            self.saving_since = None;
            return false;
        }
        self.retry_at(self.retry.map_or(end, |retry| retry.at.min(end)));
        true
    }

    /// Plans another build for this time.
    fn retry_at(&mut self, at: Instant) {
        let pause = self.retry.map_or(RETRY_MIN, |retry| retry.pause);
        self.retry = Some(Retry { at, pause });
    }

    /// Plans another build after a pause that doubles each time (exponential backoff).
    fn retry_later(&mut self) {
        let pause = self.retry.map_or(RETRY_MIN, |retry| (retry.pause * 2).min(RETRY_MAX));
        self.retry = Some(Retry { at: Instant::now() + pause, pause });
    }
}

impl PlannedBuild {
    /// Plans a build that may start at once.
    fn now() -> PlannedBuild {
        let now = Instant::now();
        PlannedBuild { at: now, deadline: now + COMPRESS_DELAY_MAX }
    }

    /// Plans a build after a change.
    ///
    /// An earlier plan is deferred, but keeps its deadline.
    fn after_change(planned: Option<PlannedBuild>) -> PlannedBuild {
        let now = Instant::now();
        let deadline = planned.map_or(now + COMPRESS_DELAY_MAX, |planned| planned.deadline);
        PlannedBuild { at: deadline.min(now + COMPRESS_DELAY), deadline }
    }
}

/// Returns `true` if the name contains the name of another file in the same folder, e.g. `a.html.bak`, `.a.html.tmp-1` or
/// `a.html~`.
fn is_companion(files: &BuiltFiles, path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let mut others = files.stamps().filter_map(|(other, _)| std::str::from_utf8(other).ok());
    others.any(|other| {
        let (other_folder, other) =
            other.rsplit_once('/').map_or(("", other), |(folder, name)| (folder, name));
        other_folder == folder && other != name && name.contains(other)
    })
}

/// Computes the state that a scan would find if the folder had exactly these files.
fn files_state(files: &BuiltFiles) -> FilesState {
    let mut state = FilesState::default();
    for (path, stamp) in files.stamps() {
        let metadata = FileMetadata {
            inode: stamp.version.inode,
            size: stamp.version.size,
            modified_ns: stamp.version.modified_ns,
            changed_ns: stamp.changed_ns,
        };
        state.add(Path::new(OsStr::from_bytes(path)), &metadata);
    }
    state
}

/// Gives way to other threads.
///
/// Threads spawned by this one inherit its priority.
fn lower_priority() {
    // On other systems, this would change the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

#[cfg(test)]
mod tests;
