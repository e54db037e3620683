//! The thread that waits for changes in a folder and reports them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::file_system;
use crate::polling::{Finding, Poller};
use crate::tree::{self, Filter, Identity};
use crate::watches::{Limit, Signal, WatchError, Watches};

/// Programs tend to write several files at a time, so a change is only reported once there has not been another one for this
/// long.
const QUIET: Duration = Duration::from_millis(10);

/// Upper limit for the delay of a report, in case there are more and more changes.
const DELAY_MAX: Duration = Duration::from_millis(100);

/// Interval at which to check that the path still leads to the same folder, as events may get lost while it is
/// being replaced.
const IDENTITY_INTERVAL: Duration = Duration::from_millis(500);

/// Settings of a follower.
pub struct Settings {
    /// The folder, which may not exist yet.
    pub root: PathBuf,
    /// How to find changes.
    pub mode: Mode,
    /// Paths to follow.
    pub filter: Filter,
}

/// How to find changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Use events if possible. If we are not able to rely on them, poll instead.
    Auto,
    /// Poll at the given interval, or else as often as possible without using more than 2 % of a processor.
    Polling(Option<Duration>),
}

/// A report to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// From now on, every change will be reported. This does not include earlier changes.
    Started,
    /// Files may have changed.
    Changed,
    /// From now on, the folder will be polled.
    Polling {
        /// The initial interval.
        interval: Duration,
        /// The reason.
        reason: PollingReason,
    },
}

/// Why we have to poll a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollingReason {
    /// The settings ask for it.
    Requested,
    /// The folder (or a part of it) is in this file system. It does not report changes made by other machines.
    FileSystem(&'static str),
    /// We have reached a system limit.
    Limit(Limit),
    /// The system cannot watch the folder.
    Unavailable(String),
}

/// Why a folder cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The path cannot be made absolute.
    #[error("cannot resolve {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Follows a folder until this value is dropped.
#[derive(Debug)]
pub struct Follower {
    messages: Sender<Message>,
}

#[derive(Debug)]
enum Message {
    Signal(Signal),
    Stop,
}

impl From<Signal> for Message {
    fn from(signal: Signal) -> Message {
        Message::Signal(signal)
    }
}

impl Follower {
    /// Starts following a folder. This returns right away: it may take a while to watch many directories, and callers can read
    /// them in the meantime. `on_event` will be called on another thread, first with [`Event::Started`] once the folder is being
    /// watched.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start(
        settings: Settings,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Follower, StartError> {
        let Settings { root, mode, filter } = settings;
        let absolute = std::path::absolute(&root);
        let root = absolute.map_err(|source| StartError::Path { path: root, source })?;
        let (messages, receiver) = channel();
        let sender = messages.clone();

        let run = move || {
            let identity = identity_of(&root);
            let mut worker = Worker { root, filter, identity, on_event: Box::new(on_event) };
            let source = worker.open(mode, &sender);
            (worker.on_event)(Event::Started);
            worker.run(source, &receiver);
        };

        thread::Builder::new().name("follow".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Follower { messages })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Fails only if the thread has panicked.
        let _ = self.messages.send(Message::Stop);
    }
}

/// Where we learn about changes.
enum Source {
    Watches(Watches),
    Poller(Poller),
}

/// State of the follower's thread.
struct Worker {
    root: PathBuf,
    filter: Filter,
    /// The directory to which the root currently leads.
    identity: Option<Identity>,
    on_event: Box<dyn FnMut(Event) + Send>,
}

/// Why we stop waiting for system events.
enum End {
    /// The follower was dropped.
    Dropped,
    /// We can no longer rely on events.
    Failed(WatchError),
}

/// The extent of a change, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Nothing that we follow.
    None,
    /// Files.
    Files,
    /// Directories too. New ones may need watches.
    Directories,
}

impl Worker {
    /// Tries to watch the folder. If that is not possible, we need to fall back to polling.
    fn open(&mut self, mode: Mode, sender: &Sender<Message>) -> Source {
        if let Mode::Polling(interval) = mode {
            return Source::Poller(self.start_polling(interval, PollingReason::Requested));
        }
        if let Some(name) = file_system::without_events(&self.root) {
            return Source::Poller(self.start_polling(None, PollingReason::FileSystem(name)));
        }

        let watches = Watches::new(sender.clone()).and_then(|mut watches| {
            watches.update(&self.root, &self.filter)?;
            Ok(watches)
        });
        match watches {
            Ok(watches) => Source::Watches(watches),
            Err(error) => Source::Poller(self.start_polling(None, error.into())),
        }
    }

    /// Starts polling and reports this.
    fn start_polling(&mut self, interval: Option<Duration>, reason: PollingReason) -> Poller {
        let poller = Poller::new(&self.root, &self.filter, interval);
        (self.on_event)(Event::Polling { interval: poller.interval(), reason });
        poller
    }

    /// Reports changes until the follower is dropped.
    fn run(&mut self, source: Source, messages: &Receiver<Message>) {
        let poller = match source {
            Source::Poller(poller) => poller,
            Source::Watches(mut watches) => {
                let End::Failed(error) = self.follow_events(&mut watches, messages) else { return };
                drop(watches);
                let poller = self.start_polling(None, error.into());
                // Changes may have been lost before the first scan.
                (self.on_event)(Event::Changed);
                poller
            }
        };
        self.poll(poller, messages);
    }

    /// Reports changes for as long as we can rely on events.
    fn follow_events(&mut self, watches: &mut Watches, messages: &Receiver<Message>) -> End {
        loop {
            if let Err(end) = self.report_next(watches, messages) {
                return end;
            }
        }
    }

    /// Waits for a message and, if it is about a change, reports it.
    fn report_next(&mut self, watches: &mut Watches, messages: &Receiver<Message>) -> Result<(), End> {
        let change = match self.receive(watches, messages, IDENTITY_INTERVAL)? {
            Some(change) => change,
            None if identity_of(&self.root) != self.identity => Change::Directories,
            None => Change::None,
        };
        if change == Change::None {
            return Ok(());
        }

        // When a program saves one file, it often writes others too, so wait for the last of
        // them.
        let change = self.await_quiet(change, watches, messages)?;
        if change == Change::Directories {
            self.identity = identity_of(&self.root);
            watches.update(&self.root, &self.filter).map_err(End::Failed)?;
        }
        (self.on_event)(Event::Changed);
        Ok(())
    }

    /// Waits until there are no more changes for a moment, then returns the largest extent of `change` and everything that
    /// followed.
    fn await_quiet(
        &self,
        mut change: Change,
        watches: &mut Watches,
        messages: &Receiver<Message>,
    ) -> Result<Change, End> {
        let end = Instant::now() + DELAY_MAX;
        let mut quiet = Instant::now() + QUIET;
        loop {
            let wait = quiet.min(end).saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(change);
            }
            match self.receive(watches, messages, wait)? {
                None => return Ok(change),
                Some(Change::None) => {}
                Some(more) => {
                    change = change.max(more);
                    quiet = Instant::now() + QUIET;
                }
            }
        }
    }

    /// Receives a message and returns the extent of its change. Returns `None` if the timeout
    /// expires first.
    fn receive(
        &self,
        watches: &mut Watches,
        messages: &Receiver<Message>,
        timeout: Duration,
    ) -> Result<Option<Change>, End> {
        match messages.recv_timeout(timeout) {
            Ok(Message::Signal(Signal::Failed(error))) => Err(End::Failed(error)),
            // There is no way to know which events were lost, so we need to check all directories.
            Ok(Message::Signal(Signal::Lost)) => Ok(Some(Change::Directories)),
            Ok(Message::Signal(Signal::Changed(path))) => {
                let concerns = watches.concerns(&self.root, &self.filter, &path);
                Ok(Some(if concerns { Change::Files } else { Change::None }))
            }
            Ok(Message::Signal(Signal::Name(path))) => {
                if !watches.concerns(&self.root, &self.filter, &path) {
                    return Ok(Some(Change::None));
                }
                // The name may now stand for another directory, which needs a new watch.
                let may_be_directory = watches.may_be_directory(&path);
                watches.forget(&path);
                Ok(Some(if may_be_directory { Change::Directories } else { Change::Files }))
            }
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => Err(End::Dropped),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Polls and reports changes until the follower is dropped.
    fn poll(&mut self, mut poller: Poller, messages: &Receiver<Message>) {
        let mut next = Instant::now() + poller.interval();
        loop {
            match messages.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // These were sent before we began to poll.
                Ok(Message::Signal(_)) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if poller.scan(&self.root, &self.filter) == Finding::Changed {
                        (self.on_event)(Event::Changed);
                    }
                    next = Instant::now() + poller.interval();
                }
            }
        }
    }
}

impl From<WatchError> for PollingReason {
    fn from(error: WatchError) -> PollingReason {
        match error {
            WatchError::Limit(limit) => PollingReason::Limit(limit),
            WatchError::FileSystem(name) => PollingReason::FileSystem(name),
            WatchError::Other(why) => PollingReason::Unavailable(why),
        }
    }
}

fn identity_of(root: &Path) -> Option<Identity> {
    fs::metadata(root).ok().map(|metadata| tree::identity(&metadata))
}

#[cfg(test)]
mod tests;
