//! Event loops on Linux: epoll, as well as io_uring if the kernel supports the operations we need. We
//! currently prefer epoll, which is faster with many open connections.

use std::fmt;

use cannery_eventloop::{Balancer, Epoll, Uring, Waker};

use super::LoopTask;
use crate::config::Io;
use crate::error::StartError;

/// An event loop that every kernel supports.
pub(crate) type DefaultLoop = Epoll;

/// Kernel interface of an event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// `epoll(7)`.
    Epoll,
    /// `io_uring(7)`.
    Uring,
}

impl Backend {
    /// An event loop that every kernel supports.
    pub(crate) const DEFAULT: Backend = Backend::Epoll;

    /// Creates the event loop, and runs the task on it.
    pub(crate) fn make(self, waker: Waker, balancer: Option<Balancer>, task: impl LoopTask) {
        match self {
            Backend::Epoll => task.run(DefaultLoop::new(waker, balancer)),
            Backend::Uring => task.run(Uring::new(waker, balancer)),
        }
    }

    pub(crate) fn is_uring(self) -> bool {
        self == Backend::Uring
    }
}

/// The selected event loop, and why we have selected it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    /// The selected event loop.
    pub chosen: Backend,
    /// Why io_uring is not available, or `None` if it is.
    pub no_uring: Option<String>,
}

impl BackendChoice {
    /// Selects an event loop.
    ///
    /// # Errors
    /// Returns an error if the configuration requires io_uring and the kernel does not support it.
    pub(crate) fn make(wanted: Io) -> Result<BackendChoice, StartError> {
        match (wanted, Uring::probe()) {
            (Io::Uring, Ok(())) => Ok(BackendChoice { chosen: Backend::Uring, no_uring: None }),
            (Io::Uring, Err(error)) => Err(StartError::Uring(error)),
            // io_uring is 10 % cheaper for new connections, but up to 8 % more expensive with thousands of
            // open ones (see `bench/notes.md` for the figures).
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
