//! The thread that waits for changes of a folder and reports them.

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

/// Changes are reported after this time without another one, because programs write several files at a time.
const QUIET: Duration = Duration::from_millis(10);

/// Changes are reported at the latest after this time, even if there are always more.
const DELAY_MAX: Duration = Duration::from_millis(100);

/// Interval at which the folder's own identity is checked, because events may be missing while it is replaced.
const IDENTITY_INTERVAL: Duration = Duration::from_millis(500);

/// The settings of a follower.
pub struct Settings {
    /// The folder. It need not exist yet.
    pub root: PathBuf,
    /// How changes are found.
    pub mode: Mode,
    /// The paths that are followed.
    pub filter: Filter,
}

/// How changes are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By events; by polling where they can't be relied upon.
    Auto,
    /// By polling, at this interval; `None` is as often as it costs at most 2 % of a processor.
    Polling(Option<Duration>),
}

/// A report to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Every later change will be reported. Those before it aren't.
    Started,
    /// Files may have changed.
    Changed,
    /// From now on, the folder is polled at this interval.
    Polling {
        /// The interval at first.
        interval: Duration,
        /// The reason.
        reason: PollingReason,
    },
}

/// Why a folder is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollingReason {
    /// The settings request it.
    Requested,
    /// This file system, of the folder or of a part of it, has no events for changes by other machines.
    FileSystem(&'static str),
    /// A limit of the system is reached.
    Limit(Limit),
    /// The system can't watch the folder.
    Unavailable(String),
}

/// Why a folder can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The path can't be made absolute.
    #[error("cannot resolve {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The thread can't be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Follows a folder until it is dropped.
#[derive(Debug)]
pub struct Follower {
    messages: Sender<Message>,
}

/// A message to the thread.
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
    /// Starts to follow a folder, and returns at once: watching many directories takes a while, in which the caller can read
    /// them. `on_event` is called from a thread of the follower, with [`Event::Started`] when it watches the folder.
    ///
    /// # Errors
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
        // This fails only if the thread has panicked.
        let _ = self.messages.send(Message::Stop);
    }
}

/// The source of changes.
enum Source {
    Watches(Watches),
    Poller(Poller),
}

/// The state of the thread that follows the folder.
struct Worker {
    root: PathBuf,
    filter: Filter,
    /// The directory that the root leads to.
    identity: Option<Identity>,
    on_event: Box<dyn FnMut(Event) + Send>,
}

/// Why the thread stops waiting for events of the system.
enum End {
    /// The follower was dropped.
    Dropped,
    /// Events can't be relied upon any more.
    Failed(WatchError),
}

/// The extent of a change, from the smallest to the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// No file or directory that is followed.
    None,
    /// Files.
    Files,
    /// Directories too, which may need watches.
    Directories,
}

impl Worker {
    /// Opens the source of changes.
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

    /// Starts to poll, and reports that.
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
                (self.on_event)(Event::Changed);
                poller
            }
        };
        self.poll(poller, messages);
    }

    /// Reports changes by events of the system, as long as that is possible.
    fn follow_events(&mut self, watches: &mut Watches, messages: &Receiver<Message>) -> End {
        loop {
            if let Err(end) = self.report_next(watches, messages) {
                return end;
            }
        }
    }

    /// Waits for a message, and reports the change if there is one.
    fn report_next(&mut self, watches: &mut Watches, messages: &Receiver<Message>) -> Result<(), End> {
        let change = match self.receive(watches, messages, IDENTITY_INTERVAL)? {
            Some(change) => change,
            None if identity_of(&self.root) != self.identity => Change::Directories,
            None => Change::None,
        };
        if change == Change::None {
            return Ok(());
        }

        let change = self.await_quiet(change, watches, messages)?;
        if change == Change::Directories {
            self.identity = identity_of(&self.root);
            watches.update(&self.root, &self.filter).map_err(End::Failed)?;
        }
        (self.on_event)(Event::Changed);
        Ok(())
    }

    /// Waits for a moment without changes. Returns the extent of all changes since `change`.
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

    /// Receives a message, and returns the change that it reports. Returns `None` after the timeout.
    fn receive(
        &self,
        watches: &mut Watches,
        messages: &Receiver<Message>,
        timeout: Duration,
    ) -> Result<Option<Change>, End> {
        match messages.recv_timeout(timeout) {
            Ok(Message::Signal(Signal::Failed(error))) => Err(End::Failed(error)),
            Ok(Message::Signal(Signal::Lost)) => Ok(Some(Change::Directories)),
            Ok(Message::Signal(Signal::Changed(path))) => {
                let concerns = watches.concerns(&self.root, &self.filter, &path);
                Ok(Some(if concerns { Change::Files } else { Change::None }))
            }
            Ok(Message::Signal(Signal::Name(path))) => {
                if !watches.concerns(&self.root, &self.filter, &path) {
                    return Ok(Some(Change::None));
                }
                let may_be_directory = watches.may_be_directory(&path);
                watches.forget(&path);
                Ok(Some(if may_be_directory { Change::Directories } else { Change::Files }))
            }
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => Err(End::Dropped),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Reports changes by polling, until the follower is dropped.
    fn poll(&mut self, mut poller: Poller, messages: &Receiver<Message>) {
        let mut next = Instant::now() + poller.interval();
        loop {
            match messages.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // Sent before polling began.
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
