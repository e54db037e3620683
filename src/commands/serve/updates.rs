//! Compiles the folder again after each change, and publishes the result.
//!
//! A quick build follows each change at once. When it is served, a thread of low priority compresses what has changed; it is
//! canceled by the next change. A build that fails leaves the last one in place.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cannery_archiver::skip::{IGNORE_FILE, SkipRules};
use cannery_archiver::{Build, BuiltFiles, CancelFlag, Change, Compiler, Effort, Error};
use cannery_follow::{Event, Filter, Follower, Inspector, Mode, Settings};
use cannery_server::Publisher;

use super::event_log::{self, EventLog};
use super::live::{Live, Pages};
use super::message::Message;
use crate::flags::site::Serve;
use crate::output::Failure;

/// Pause before a folder is compiled again that was being written, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The index of the archive in the server's configuration.
const ARCHIVE: usize = 0;

/// Changes of the folder, from before its first build on.
pub(super) struct Updates {
    messages: Receiver<Message>,
    sender: Sender<Message>,
    /// `None` if the folder isn't followed.
    follower: Option<Follower>,
    live: Option<Arc<Live>>,
}

impl Updates {
    /// Starts to follow the folder.
    pub(super) fn follow(flags: &Serve) -> Result<Updates, Failure> {
        let (sender, messages) = channel();
        if flags.no_follow {
            return Ok(Updates { messages, sender, follower: None, live: None });
        }

        let filter = filter();
        let pages = if flags.reloads_browsers() { Pages::Script } else { Pages::None };
        let inspector = Inspector::new(flags.folder.clone(), filter.clone());
        let live = Some(Arc::new(Live::new(inspector, sender.clone(), pages)));
        let follower = Some(follower(flags, filter, sender.clone())?);
        Ok(Updates { messages, sender, follower, live })
    }

    /// Returns the state that browsers follow, unless the folder isn't followed.
    pub(super) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Serves every change from now on, from a thread of its own. `first` is served already.
    pub(super) fn serve(
        self,
        compiler: Compiler,
        first: &Build,
        publisher: Publisher,
        log: EventLog,
    ) -> Result<(), Failure> {
        let Updates { messages, sender, follower, live } = self;
        let mut updater = Updater {
            compiler: Arc::new(compiler),
            publisher,
            log,
            live,
            sender,
            served: Served {
                number: first.number,
                digest: first.report.digest.clone(),
                files: first.files.clone(),
            },
            background: None,
            retry: None,
            is_incomplete: true,
        };
        updater.await_unsettled(first);
        let run = move || {
            let _follower = follower;
            // This fails only if the reader of the output has closed it. The server goes on.
            let _ = updater.run(&messages);
        };
        let thread = thread::Builder::new().name("updates".into()).spawn(run);
        thread.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }
}

/// Returns the filter of everything except the names that a build leaves out by default.
fn filter() -> Filter {
    let rules = SkipRules::default();
    Arc::new(move |path: &Path, is_folder: bool| {
        path == Path::new(IGNORE_FILE) || rules.verdict(path.as_os_str().as_bytes(), is_folder).is_none()
    })
}

/// Starts to follow the folder.
fn follower(flags: &Serve, filter: Filter, sender: Sender<Message>) -> Result<Follower, Failure> {
    let mode = flags.poll_interval().map_or(Mode::Auto, Mode::Polling);
    let settings = Settings { root: flags.folder.clone(), mode, filter };
    let on_event = move |event| {
        // This fails only if the updates have ended.
        let _ = sender.send(Message::Folder(event, Instant::now()));
    };
    Follower::start(settings, on_event).map_err(|error| Failure::failed(error.to_string()))
}

/// The state of the thread.
struct Updater {
    compiler: Arc<Compiler>,
    publisher: Publisher,
    log: EventLog,
    live: Option<Arc<Live>>,
    sender: Sender<Message>,
    served: Served,
    /// Cancels the build in the background, if there is one.
    background: Option<CancelFlag>,
    /// When the folder is compiled again although no change was reported, and the pause before.
    retry: Option<(Instant, Duration)>,
    /// Whether the served build lacks something that a build in the background adds.
    is_incomplete: bool,
}

/// The build that is served.
struct Served {
    number: u64,
    digest: String,
    files: BuiltFiles,
}

impl Updater {
    fn run(&mut self, messages: &Receiver<Message>) -> Result<(), Failure> {
        loop {
            if self.is_incomplete && self.background.is_none() && self.retry.is_none() {
                self.compress();
            }
            let message = match self.retry {
                Some((at, _)) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Folder(Event::Changed, since)) => {
                    if let Some(live) = &self.live {
                        live.inspect();
                    }
                    self.update(since)?;
                }
                Ok(Message::Folder(Event::Polling { interval, reason }, _)) => {
                    self.log.polling(interval, &reason)?;
                }
                Ok(Message::Compressed(result, took)) => self.on_compressed(result, took)?,
                // A request that no longer waits has no receiver.
                Ok(Message::Build(done)) => {
                    self.update(Instant::now())?;
                    let _ = done.send(());
                }
                Ok(Message::Finish(done)) => {
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.update(Instant::now())?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Compiles the folder, and serves the result if it differs. `since` is the time of the change.
    fn update(&mut self, since: Instant) -> Result<(), Failure> {
        if let Some(background) = &self.background {
            background.cancel();
        }
        let build = match self.compiler.build(Effort::Quick, &CancelFlag::default(), &()) {
            Ok(build) => build,
            Err(error) => {
                if error.is_transient() {
                    self.retry_later();
                }
                return self.on_failure(&error);
            }
        };
        self.await_unsettled(&build);
        self.is_incomplete = true;
        let changes = build.files.changes_since(&self.served.files);
        let is_logged = !changes.is_empty() || self.log.has_failed();
        if self.publish(&build, &changes)? && is_logged {
            self.log.rebuilt(&build, &changes, since.elapsed())?;
        }
        Ok(())
    }

    fn on_failure(&mut self, error: &Error) -> Result<(), Failure> {
        if let Some(live) = &self.live {
            live.failed(event_log::describe(error));
        }
        self.log.failed(error)
    }

    /// Starts a build in the background that compresses everything.
    fn compress(&mut self) {
        let cancel = CancelFlag::default();
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let flag = cancel.clone();
        let run = move || {
            lower_priority();
            let started = Instant::now();
            let result = compiler.build(Effort::Full, &flag, &());
            // This fails only if the updates have ended.
            let _ = sender.send(Message::Compressed(result, started.elapsed()));
        };
        self.is_incomplete = false;
        // Without a thread, the site is served uncompressed.
        if thread::Builder::new().name("compress".into()).spawn(run).is_ok() {
            self.background = Some(cancel);
        }
    }

    fn on_compressed(&mut self, result: Result<Build, Error>, took: Duration) -> Result<(), Failure> {
        let canceled = self.background.take().is_some_and(|flag| flag.is_canceled());
        match result {
            Ok(build) if build.number > self.served.number => {
                self.await_unsettled(&build);
                let changes = build.files.changes_since(&self.served.files);
                if self.publish(&build, &changes)? && !changes.is_empty() {
                    self.log.rebuilt(&build, &changes, took)?;
                }
                self.log.compressed(&build, took)
            }
            // A newer build is served, or will be.
            Ok(_) | Err(Error::Canceled) => Ok(()),
            Err(_) if canceled => Ok(()),
            // The next quick build finds out whether the folder still changes.
            Err(error) if error.is_transient() => {
                self.retry_later();
                Ok(())
            }
            Err(error) => self.on_failure(&error),
        }
    }

    /// Serves a build that differs from the served one in `changes`. Returns `false` if the server is stopping.
    fn publish(&mut self, build: &Build, changes: &[Change]) -> Result<bool, Failure> {
        if self.served.digest != build.report.digest {
            let archive = build.archive.try_clone().map_err(|error| Failure::failed(error.to_string()))?;
            if self.publisher.publish(ARCHIVE, archive).is_err() {
                return Ok(false);
            }
        }

        self.served =
            Served { number: build.number, digest: build.report.digest.clone(), files: build.files.clone() };
        if let Some(live) = &self.live {
            live.served(changes);
        }
        Ok(true)
    }

    /// Plans another build if files were being written.
    fn await_unsettled(&mut self, build: &Build) {
        if build.unsettled.is_empty() {
            self.retry = None;
        } else {
            self.retry_later();
        }
    }

    fn retry_later(&mut self) {
        let pause = self.retry.map_or(RETRY_MIN, |(_, pause)| (pause * 2).min(RETRY_MAX));
        self.retry = Some((Instant::now() + pause, pause));
    }
}

/// Lets other threads run first. Threads that this one starts inherit its priority.
fn lower_priority() {
    // On other systems, this is the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}
