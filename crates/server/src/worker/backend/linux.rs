//! Which loop serves: chosen once at start, by what was ordered and what the kernel has.

use std::fmt;

use cannery_eventloop::{Balancer, Epoll, Uring, Waker};

use super::LoopTask;
use crate::config::Io;
use crate::error::StartError;

/// The loop that is always there.
pub(crate) type DefaultLoop = Epoll;

/// A loop over the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// `epoll(7)`.
    Epoll,
    /// `io_uring(7)`.
    Uring,
}

impl Backend {
    /// The loop that is always there.
    pub(crate) const DEFAULT: Backend = Backend::Epoll;

    /// Makes such a loop, and hands it over.
    pub(crate) fn make(self, waker: Waker, balancer: Option<Balancer>, task: impl LoopTask) {
        match self {
            Backend::Epoll => task.run(DefaultLoop::new(waker, balancer)),
            Backend::Uring => task.run(Uring::new(waker, balancer)),
        }
    }

    /// Whether it is over a ring.
    pub(crate) fn is_ring(self) -> bool {
        self == Backend::Uring
    }
}

/// The loop that serves, and why it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    /// Which.
    pub chosen: Backend,
    /// What the kernel says of the other one: nothing if it has it, else why not.
    pub no_uring: Option<String>,
}

impl BackendChoice {
    /// Asks the kernel what it has, and chooses.
    pub(crate) fn make(wanted: Io) -> Result<BackendChoice, StartError> {
        match (wanted, Uring::probe()) {
            (Io::Uring, Ok(())) => Ok(BackendChoice { chosen: Backend::Uring, no_uring: None }),
            (Io::Uring, Err(error)) => Err(StartError::Uring(error)),
            // A ring is a tenth cheaper on new connections, and up to 8 % dearer on thousands that are kept:
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
