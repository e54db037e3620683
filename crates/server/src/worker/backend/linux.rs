//! Event loops of Linux: epoll, and io_uring if the kernel has the operations that we need. We prefer epoll, which is faster
//! for many open connections.

use std::fmt;

use cannery_eventloop::{Balancer, Epoll, Uring, Waker};

use super::LoopTask;
use crate::config::Io;
use crate::error::StartError;

/// The event loop that every kernel has.
pub(crate) type DefaultLoop = Epoll;

/// An event loop of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// `epoll(7)`.
    Epoll,
    /// `io_uring(7)`.
    Uring,
}

impl Backend {
    /// The event loop that every kernel has.
    pub(crate) const DEFAULT: Backend = Backend::Epoll;

    /// Creates the event loop, and runs a task on it.
    pub(crate) fn make(self, waker: Waker, balancer: Option<Balancer>, task: impl LoopTask) {
        match self {
            Backend::Epoll => task.run(DefaultLoop::new(waker, balancer)),
            Backend::Uring => task.run(Uring::new(waker, balancer)),
        }
    }

    /// Returns `true` for io_uring.
    pub(crate) fn is_uring(self) -> bool {
        self == Backend::Uring
    }
}

/// The selected event loop, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    /// The selected one.
    pub chosen: Backend,
    /// Why io_uring can't be used, or `None` if it can.
    pub no_uring: Option<String>,
}

impl BackendChoice {
    /// Selects an event loop.
    ///
    /// # Errors
    /// The configuration requires io_uring, and the kernel lacks it.
    pub(crate) fn make(wanted: Io) -> Result<BackendChoice, StartError> {
        match (wanted, Uring::probe()) {
            (Io::Uring, Ok(())) => Ok(BackendChoice { chosen: Backend::Uring, no_uring: None }),
            (Io::Uring, Err(error)) => Err(StartError::Uring(error)),
            // io_uring is 10 % cheaper for new connections, and up to 8 % more expensive for thousands of open ones:
            // `bench/notes.md` has the figures.
            (Io::Auto | Io::Epoll, probed) => {
                let no_uring = probed.err().map(|error| error.to_string());
                Ok(BackendChoice { chosen: Backend::Epoll, no_uring })
            }
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.chosen, &self.no_uring) {
            (Backend::Uring, _) => f.write_str("io_uring"),
            (Backend::Epoll, None) => f.write_str("epoll (the kernel has io_uring)"),
            (Backend::Epoll, Some(why)) => write!(f, "epoll (io_uring cannot be used: {why})"),
        }
    }
}
