//! Compiles the folder again after each change, and publishes the result.
//!
//! A quick build follows each change at once. When the folder has not changed for a moment, a thread of low priority compresses
//! what has changed. The next change cancels that build and defers it, but only until its deadline: a folder that changes all the
//! time is compressed as well. A build that fails leaves the last one in place, and the deadline too: nothing is compressed until
//! the folder can be compiled again.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cannery_archiver::diagnostic::Diagnostic;
use cannery_archiver::{Build, BuiltFiles, CancelFlag, Change, Compiler, Effort, Error};
use cannery_follow::{Event, FileMetadata, FilesState};

use super::event_log::EventLog;
use super::failure::BuildFailure;
use super::message::{Message, Messages, ScanResult};
use crate::output::Failure;

/// Pause before a folder is compiled again that was being written, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Pause between a change and the build in the background. Until then, the browser loads the changed page, and the editor may
/// save another file.
const COMPRESS_DELAY: Duration = Duration::from_millis(500);

/// The longest time for which changes cancel and defer the build in the background. A canceled one keeps what it has compressed.
const COMPRESS_DELAY_MAX: Duration = Duration::from_secs(10);

/// A build that looks like a step of saving a file is held back for this time: editors and build tools move the old version away,
/// write the new one, and remove the old one. Each step would be a change of its own.
const SAVE_MAX: Duration = Duration::from_millis(300);

/// More changes at a time aren't those of one save.
const SAVE_CHANGES_MAX: usize = 8;

/// Pause before a folder is compiled again that has lost its start page, or most of its files.
const UNFINISHED_PAUSE: Duration = Duration::from_millis(200);

/// Receives the builds of a folder.
pub(in crate::commands) trait BuildSink {
    /// Serves an archive. When it returns, all later requests are answered from it.
    ///
    /// # Errors
    /// The server is stopping.
    fn publish(&self, archive: File) -> Result<(), Stopped>;

    /// Scans the folder before a build, because builds leave out some of the files that scans find.
    fn scan(&self) {}

    /// Handles that a build of this effort is served, with these remarks, which differs from the one before in `changes`.
    fn served(&self, _changes: &[Change], _diagnostics: &[Diagnostic], _effort: Effort) {}

    /// Handles that a build failed.
    fn failed(&self, _failure: &BuildFailure) {}
}

/// The server is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct Stopped;

/// Compiles the folder after each change, until the server stops.
pub(in crate::commands) struct Updater<S> {
    compiler: Arc<Compiler>,
    sink: S,
    log: EventLog,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    current: CurrentBuild,
    /// When the last quick build began, after the first one.
    last_build: Option<Instant>,
    /// Whether a scan precedes each build.
    scans_first: bool,
    /// The running build in the background.
    background: Option<Background>,
    /// The next build although no change was reported.
    retry: Option<Retry>,
    /// When the first of the changes appeared that are held back, because they may be steps of saving a file.
    saving_since: Option<Instant>,
    /// The digest of the last build that was reported as compressed.
    complete_digest: Option<String>,
    /// The next build in the background. A canceled build remains planned.
    planned: Option<PlannedBuild>,
    /// Whether the next build in the background could succeed.
    condition: Condition,
}

/// Whether the folder can be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Sound,
    /// The last quick build has found an error, which remains until the next change.
    Broken,
}

/// A build in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlannedBuild {
    at: Instant,
    /// Until then, changes cancel and defer it.
    deadline: Instant,
}

/// A running build in the background.
struct Background {
    plan: PlannedBuild,
    cancel: CancelFlag,
    relevance: Relevance,
}

/// Whether a build in the background has the newest state of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relevance {
    Newest,
    /// A quick build has begun since. The next one reuses the contents that this one compresses.
    Superseded,
    /// A quick build has begun since, before the deadline of this one.
    Canceled,
}

/// A build that is planned because files were being written.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    /// The pause before it.
    pause: Duration,
}

/// Whether builds that look like steps of saving a file are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    HeldBack,
    Served,
}

/// The outcome of publishing a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishOutcome {
    /// The build is served.
    Served,
    /// The server is stopping.
    Stopping,
}

/// The build that is served.
struct CurrentBuild {
    number: u64,
    digest: String,
    files: BuiltFiles,
}

impl<S: BuildSink> Updater<S> {
    /// Creates the state of the thread. `first` is served already.
    pub(in crate::commands) fn new(
        compiler: Compiler,
        first: &Build,
        messages: Messages,
        sink: S,
        log: EventLog,
    ) -> Updater<S> {
        let Messages { sender, receiver: messages } = messages;
        let current = CurrentBuild {
            number: first.number,
            digest: first.report.digest.clone(),
            files: first.files.clone(),
        };
        let mut updater = Updater {
            compiler: Arc::new(compiler),
            sink,
            log,
            messages,
            sender,
            current,
            last_build: None,
            scans_first: false,
            background: None,
            retry: None,
            saving_since: None,
            complete_digest: None,
            planned: Some(PlannedBuild::now()),
            condition: Condition::Sound,
        };
        updater.await_unsettled(first);
        updater
    }

    /// Serves every change. Returns when the server stops.
    ///
    /// # Errors
    /// The reader of the output has closed it.
    pub(in crate::commands) fn run(&mut self) -> Result<(), Failure> {
        while self.handle_next()?.is_continue() {}
        Ok(())
    }

    /// Waits for the next message or planned build, and handles it.
    fn handle_next(&mut self) -> Result<ControlFlow<()>, Failure> {
        if self.has_overdue_build() {
            self.compress();
        }
        let message = match self.next_build() {
            Some(at) => self.messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(Message::Folder(Event::Started, _)) => {}
            Ok(Message::Folder(Event::Changed, since)) => {
                if !self.has_built_since(since) {
                    if self.scans_first {
                        self.sink.scan();
                    }
                    self.update(since, Steps::HeldBack)?;
                }
            }
            Ok(Message::Folder(Event::Polling { interval, reason }, _)) => {
                self.log.polling(interval, &reason)?;
            }
            Ok(Message::Compressed(result, took)) => self.on_compressed(result, took)?,
            // A request that no longer waits has no receiver.
            Ok(Message::Build(done, found)) => {
                self.update_to(&found)?;
                let _ = done.send(());
            }
            Ok(Message::Finish(done)) => {
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) if self.retry.is_some() => {
                self.update(Instant::now(), Steps::HeldBack)?;
            }
            Err(RecvTimeoutError::Timeout) => self.compress(),
            Err(RecvTimeoutError::Disconnected) => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns when to build although no change is reported, if at all: again, or in the background.
    fn next_build(&self) -> Option<Instant> {
        match self.retry {
            Some(retry) => Some(retry.at),
            None if self.can_compress() => self.planned.map(|planned| planned.at),
            None => None,
        }
    }

    /// Returns `true` if a build in the background is to begin although messages wait.
    fn has_overdue_build(&self) -> bool {
        self.can_compress() && self.planned.is_some_and(|planned| planned.deadline <= Instant::now())
    }

    /// Returns `true` if a planned build in the background may begin. In a broken folder, it would fail again.
    fn can_compress(&self) -> bool {
        self.background.is_none() && self.condition == Condition::Sound
    }

    /// Compiles the folder, and serves the result if it differs. `since` is the time of the change.
    fn update(&mut self, since: Instant, steps: Steps) -> Result<(), Failure> {
        self.last_build = Some(Instant::now());
        self.supersede_background();
        let build = match self.compiler.build(Effort::Quick, &CancelFlag::default(), &()) {
            Ok(build) => build,
            Err(error) if error.is_unfinished() => {
                self.retry_at(Instant::now() + UNFINISHED_PAUSE);
                return Ok(());
            }
            Err(error) => {
                if error.is_transient() {
                    self.retry_later();
                } else {
                    // Only a change fixes it.
                    self.retry = None;
                    self.condition = Condition::Broken;
                }
                return self.on_failure(&error);
            }
        };

        self.condition = Condition::Sound;
        self.await_unsettled(&build);
        // The compressed contents of unchanged files are in memory.
        let is_complete = self.complete_digest.as_ref() == Some(&build.report.digest);
        let changes = build.files.changes_since(&self.current.files);
        if steps == Steps::HeldBack && self.await_save(&build, &changes) {
            return Ok(());
        }
        let is_logged = !changes.is_empty()
            || self.log.has_failed()
            || self.log.has_new_remarks(&build.report.diagnostics);
        if self.publish(&build, &changes, Effort::Quick)? == PublishOutcome::Served && is_logged {
            self.log.rebuilt(&build, &changes, since.elapsed())?;
        }
        self.planned = (!is_complete).then(|| PlannedBuild::after_change(self.planned));
        Ok(())
    }

    /// Compiles the folder unless the served build has the state that a scan has found.
    fn update_to(&mut self, found: &ScanResult) -> Result<(), Failure> {
        if self.has_built_since(found.since) || self.serves(found) {
            return Ok(());
        }
        let before = self.current.files.clone();
        // The user has requested a page, and must not see an old one.
        self.update(found.since, Steps::Served)?;
        let is_same = self.current.files.changes_since(&before).is_empty();
        // Without a scan before the next build, the first request after it would cause another one.
        self.scans_first |= is_same && found.state.is_some() && !self.serves(found);
        Ok(())
    }

    /// Returns `true` if the served build has the files that a scan has found.
    fn serves(&self, found: &ScanResult) -> bool {
        found.state.is_some_and(|state| state == files_state(&self.current.files))
    }

    /// Returns `true` if the last quick build began after this time, so that it has found all changes before.
    fn has_built_since(&self, time: Instant) -> bool {
        self.last_build.is_some_and(|began| began > time)
    }

    fn on_failure(&mut self, error: &Error) -> Result<(), Failure> {
        let failure = BuildFailure::from(error);
        self.sink.failed(&failure);
        self.log.failed(&failure)
    }

    /// Records that the build in the background lacks a change, and cancels it before its deadline.
    fn supersede_background(&mut self) {
        let Some(background) = &mut self.background else { return };
        if background.plan.deadline <= Instant::now() {
            background.relevance = Relevance::Superseded;
        } else if background.relevance == Relevance::Newest {
            background.relevance = Relevance::Canceled;
            background.cancel.cancel();
            self.planned = Some(background.plan);
        }
    }

    /// Starts the planned build in the background, which compresses everything.
    fn compress(&mut self) {
        let Some(plan) = self.planned.take() else { return };
        let cancel = CancelFlag::default();
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let flag = cancel.clone();
        let run = move || {
            lower_priority();
            let started = Instant::now();
            let build = || compiler.build(Effort::Full, &flag, &());
            // The panic hook has reported a panic. There is another build after the next change.
            let result = catch_unwind(AssertUnwindSafe(build)).unwrap_or(Err(Error::Canceled));
            // This fails only if the updates have ended.
            let _ = sender.send(Message::Compressed(result, started.elapsed()));
        };
        match thread::Builder::new().name("compress".into()).spawn(run) {
            Ok(_) => self.background = Some(Background { plan, cancel, relevance: Relevance::Newest }),
            Err(error) => self.log.hint(&format!(
                "cannot start the thread that compresses: {error}; until the next change, new contents are served uncompressed"
            )),
        }
    }

    fn on_compressed(&mut self, result: Result<Build, Error>, took: Duration) -> Result<(), Failure> {
        let relevance = self.background.take().map(|background| background.relevance);
        let is_newest = relevance == Some(Relevance::Newest);
        match result {
            Ok(build) if is_newest => {
                self.await_unsettled(&build);
                let changes = build.files.changes_since(&self.current.files);
                // The quick build after the save plans another build in the background.
                if self.await_save(&build, &changes) {
                    return Ok(());
                }
                let outcome = self.publish(&build, &changes, Effort::Full)?;
                if outcome == PublishOutcome::Served && !changes.is_empty() {
                    self.log.rebuilt(&build, &changes, took)?;
                }
                self.complete_digest = Some(build.report.digest.clone());
                self.log.compressed(&build, took)
            }
            Ok(build) => self.serve_compressed(&build),
            Err(Error::Canceled) => Ok(()),
            // A newer build is served, or has failed.
            Err(_) if !is_newest => Ok(()),
            // The next quick build finds out whether the folder still changes.
            Err(error) if error.is_transient() || error.is_unfinished() => {
                self.retry_later();
                Ok(())
            }
            Err(error) => {
                // Only a change fixes it.
                self.retry = None;
                self.on_failure(&error)
            }
        }
    }

    /// Serves a complete build after a newer quick one has begun, if that has failed. The failure stands.
    fn serve_compressed(&mut self, build: &Build) -> Result<(), Failure> {
        let is_newest = build.number > self.current.number;
        if is_newest && build.files.changes_since(&self.current.files).is_empty() {
            self.serve(build)?;
        }
        Ok(())
    }

    /// Serves a build that differs from the served one in `changes`, and notifies the sink.
    fn publish(
        &mut self,
        build: &Build,
        changes: &[Change],
        effort: Effort,
    ) -> Result<PublishOutcome, Failure> {
        let outcome = self.serve(build)?;
        if outcome == PublishOutcome::Served {
            self.sink.served(changes, &build.report.diagnostics, effort);
        }
        Ok(outcome)
    }

    /// Serves a build, unless its archive is the served one.
    fn serve(&mut self, build: &Build) -> Result<PublishOutcome, Failure> {
        if self.current.digest != build.report.digest {
            let archive = build.archive.try_clone().map_err(|error| Failure::failed(error.to_string()))?;
            if self.sink.publish(archive) == Err(Stopped) {
                return Ok(PublishOutcome::Stopping);
            }
        }

        self.current = CurrentBuild {
            number: build.number,
            digest: build.report.digest.clone(),
            files: build.files.clone(),
        };
        Ok(PublishOutcome::Served)
    }

    /// Plans another build if files were being written.
    fn await_unsettled(&mut self, build: &Build) {
        if build.unsettled.is_empty() {
            self.retry = None;
        } else {
            self.retry_later();
        }
    }

    /// Returns `true` if these changes may be steps of saving a file, and plans a build that finds out.
    fn await_save(&mut self, build: &Build, changes: &[Change]) -> bool {
        let is_step = |change: &Change| {
            change.bytes_after.is_none()
                || (change.bytes_before.is_none() && is_companion(&build.files, &change.path))
        };
        if changes.len() > SAVE_CHANGES_MAX || !changes.iter().any(is_step) {
            self.saving_since = None;
            return false;
        }
        let end = *self.saving_since.get_or_insert_with(Instant::now) + SAVE_MAX;
        if end <= Instant::now() {
            self.saving_since = None;
            return false;
        }
        self.retry_at(self.retry.map_or(end, |retry| retry.at.min(end)));
        true
    }

    /// Plans another build at this time.
    fn retry_at(&mut self, at: Instant) {
        let pause = self.retry.map_or(RETRY_MIN, |retry| retry.pause);
        self.retry = Some(Retry { at, pause });
    }

    /// Plans another build after a pause, which grows each time (exponential backoff).
    fn retry_later(&mut self) {
        let pause = self.retry.map_or(RETRY_MIN, |retry| (retry.pause * 2).min(RETRY_MAX));
        self.retry = Some(Retry { at: Instant::now() + pause, pause });
    }
}

impl PlannedBuild {
    /// Plans a build without a pause.
    fn now() -> PlannedBuild {
        let now = Instant::now();
        PlannedBuild { at: now, deadline: now + COMPRESS_DELAY_MAX }
    }

    /// Plans a build after a change, which defers the planned one.
    fn after_change(planned: Option<PlannedBuild>) -> PlannedBuild {
        let now = Instant::now();
        let deadline = planned.map_or(now + COMPRESS_DELAY_MAX, |planned| planned.deadline);
        PlannedBuild { at: deadline.min(now + COMPRESS_DELAY), deadline }
    }
}

/// Returns `true` if the name of a file contains that of another file in its folder: `a.html.bak`, `.a.html.tmp-1`, `a.html~`.
fn is_companion(files: &BuiltFiles, path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let mut others = files.stamps().filter_map(|(other, _)| std::str::from_utf8(other).ok());
    others.any(|other| {
        let (other_folder, other) =
            other.rsplit_once('/').map_or(("", other), |(folder, name)| (folder, name));
        other_folder == folder && other != name && name.contains(other)
    })
}

/// Returns the state that a scan finds if the folder has these files and no others.
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

/// Lets other threads run first. Threads that this one starts inherit its priority.
fn lower_priority() {
    // On other systems, this is the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

#[cfg(test)]
mod tests;
