//! The event loop on systems other than Linux.

use std::fmt;
use std::io;

use cannery_eventloop::{Balancer, Portable, Waker};

use super::LoopTask;
use crate::config::Io;
use crate::error::StartError;

/// The only event loop.
pub(crate) type DefaultLoop = Portable;

/// Kernel interface of an event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Whatever `mio` uses: `kqueue(2)`, or `epoll(7)` on Linux.
    Portable,
}

impl Backend {
    /// The only event loop.
    pub(crate) const DEFAULT: Backend = Backend::Portable;

    /// Creates the event loop, and runs the task on it.
    pub(crate) fn make(self, waker: Waker, balancer: Option<Balancer>, task: impl LoopTask) {
        task.run(DefaultLoop::new(waker, balancer));
    }

    pub(crate) fn is_uring(self) -> bool {
        false
    }
}

/// The selected event loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    /// The only one there is.
    pub chosen: Backend,
}

impl BackendChoice {
    /// Selects the only event loop.
    ///
    /// # Errors
    /// Returns an error if the configuration requires an event loop that only Linux has.
    pub(crate) fn make(wanted: Io) -> Result<BackendChoice, StartError> {
        let refused =
            |flag| io::Error::other(format!("`--io {flag}` is for Linux; here there is `--io auto`"));
        match wanted {
            Io::Auto => Ok(BackendChoice { chosen: Backend::Portable }),
            Io::Epoll => Err(StartError::EventLoop(refused("epoll"))),
            Io::Uring => Err(StartError::EventLoop(refused("io_uring"))),
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the portable loop (this program was built without the parts that need Linux)")
    }
}
