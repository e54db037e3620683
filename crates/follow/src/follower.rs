//! The thread that waits for changes of a folder and reports them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::file_system;
use crate::polling::Poller;
use crate::tree::{self, Filter, Identity};
use crate::watches::{Signal, WatchError, Watches};

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
    /// This file system has no events for changes by other machines.
    FileSystem(&'static str),
    /// The limit of watched directories is reached.
    Limit,
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
    orders: Sender<Order>,
}

#[derive(Debug)]
enum Order {
    Signal(Signal),
    Stop,
}

impl From<Signal> for Order {
    fn from(signal: Signal) -> Order {
        Order::Signal(signal)
    }
}

impl Follower {
    /// Starts to follow a folder. When it returns, every later change will be reported. `on_event` is called from a thread
    /// of the follower.
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
        let (orders, receiver) = channel();
        let (started, has_started) = channel();
        let sender = orders.clone();
        let run = move || {
            let identity = identity_of(&root);
            let mut thread = Thread { root, filter, identity, on_event: Box::new(on_event) };
            let source = thread.open(mode, &sender);
            // The thread that waits for it has not gone on.
            let _ = started.send(());
            thread.run(source, &receiver);
        };
        thread::Builder::new().name("follow".into()).spawn(run).map_err(StartError::Thread)?;
        // This fails only if the thread has panicked, and then there will be no events.
        let _ = has_started.recv();
        Ok(Follower { orders })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
    }
}

/// The source of changes.
enum Source {
    Watches(Watches),
    Poller(Poller),
}

/// State of the thread.
struct Thread {
    root: PathBuf,
    filter: Filter,
    /// The directory that the root leads to.
    identity: Option<Identity>,
    on_event: Box<dyn FnMut(Event) + Send>,
}

/// Why the thread stops to wait for events.
enum End {
    /// The follower was dropped.
    Dropped,
    /// Events can't be relied upon any more.
    Failed(WatchError),
}

/// Changes of a moment.
#[derive(Default)]
struct Changes {
    /// Whether there are any that matter.
    is_any: bool,
    /// Whether directories may have come or gone.
    is_structure: bool,
}

impl Thread {
    /// Opens the source of changes.
    fn open(&mut self, mode: Mode, sender: &Sender<Order>) -> Source {
        match mode {
            Mode::Polling(interval) => {
                return Source::Poller(self.start_polling(interval, PollingReason::Requested));
            }
            Mode::Auto => {}
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

    fn run(&mut self, source: Source, orders: &Receiver<Order>) {
        let poller = match source {
            Source::Poller(poller) => poller,
            Source::Watches(mut watches) => {
                let End::Failed(error) = self.await_events(&mut watches, orders) else { return };
                drop(watches);
                let poller = self.start_polling(None, error.into());
                (self.on_event)(Event::Changed);
                poller
            }
        };
        self.poll(poller, orders);
    }

    /// Reports changes by events.
    fn await_events(&mut self, watches: &mut Watches, orders: &Receiver<Order>) -> End {
        loop {
            let mut changes = Changes::default();
            match orders.recv_timeout(IDENTITY_INTERVAL) {
                Ok(Order::Signal(Signal::Failed(error))) => return End::Failed(error),
                Ok(Order::Signal(signal)) => self.add(signal, watches, &mut changes),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return End::Dropped,
                Err(RecvTimeoutError::Timeout) => {
                    let is_same = identity_of(&self.root) == self.identity;
                    changes = Changes { is_any: !is_same, is_structure: !is_same };
                }
            }
            if !changes.is_any {
                continue;
            }

            // Wait for a quiet moment.
            let end = Instant::now() + DELAY_MAX;
            let mut quiet = Instant::now() + QUIET;
            loop {
                let wait = quiet.min(end).saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    break;
                }
                let mut more = Changes::default();
                match orders.recv_timeout(wait) {
                    Ok(Order::Signal(Signal::Failed(error))) => return End::Failed(error),
                    Ok(Order::Signal(signal)) => self.add(signal, watches, &mut more),
                    Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return End::Dropped,
                    Err(RecvTimeoutError::Timeout) => break,
                }
                if more.is_any {
                    changes.is_structure |= more.is_structure;
                    quiet = Instant::now() + QUIET;
                }
            }

            if changes.is_structure {
                self.identity = identity_of(&self.root);
                if let Err(error) = watches.update(&self.root, &self.filter) {
                    return End::Failed(error);
                }
            }
            (self.on_event)(Event::Changed);
        }
    }

    /// Adds a signal to the changes, if it matters.
    fn add(&self, signal: Signal, watches: &mut Watches, changes: &mut Changes) {
        match signal {
            Signal::Lost => *changes = Changes { is_any: true, is_structure: true },
            Signal::Changed(path) => changes.is_any |= watches.concerns(&self.root, &self.filter, &path),
            Signal::Name(path) => {
                if watches.concerns(&self.root, &self.filter, &path) {
                    changes.is_any = true;
                    changes.is_structure |= watches.forget(&path);
                }
            }
            Signal::Failed(_) => {}
        }
    }

    /// Reports changes by polling.
    fn poll(&mut self, mut poller: Poller, orders: &Receiver<Order>) {
        let mut look = Instant::now() + poller.interval();
        loop {
            match orders.recv_timeout(look.saturating_duration_since(Instant::now())) {
                // Sent before polling began.
                Ok(Order::Signal(_)) => {}
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if poller.has_changed(&self.root, &self.filter) {
                        (self.on_event)(Event::Changed);
                    }
                    look = Instant::now() + poller.interval();
                }
            }
        }
    }
}

impl From<WatchError> for PollingReason {
    fn from(error: WatchError) -> PollingReason {
        match error {
            WatchError::Limit => PollingReason::Limit,
            WatchError::Other(why) => PollingReason::Unavailable(why),
        }
    }
}

fn identity_of(root: &Path) -> Option<Identity> {
    fs::metadata(root).ok().map(|metadata| tree::identity(&metadata))
}

#[cfg(test)]
mod tests;
