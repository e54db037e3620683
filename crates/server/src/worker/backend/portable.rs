//! What stands for `io_choice.rs` where there is no Linux: one loop, and so nothing to choose.

use std::fmt;
use std::io;

use cannery_eventloop::{Balancer, Portable, Waker};

use super::LoopTask;
use crate::config::Io;
use crate::error::StartError;

/// The loop that is always there.
pub(crate) type DefaultLoop = Portable;

/// A loop over the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// What `mio` finds: `kqueue(2)`, or on Linux `epoll(7)`.
    Portable,
}

impl Backend {
    /// The loop that is always there.
    pub(crate) const DEFAULT: Backend = Backend::Portable;

    /// Makes such a loop, and hands it over.
    pub(crate) fn make(self, waker: Waker, balancer: Option<Balancer>, task: impl LoopTask) {
        task.run(DefaultLoop::new(waker, balancer));
    }

    /// Whether it is over a ring.
    pub(crate) fn is_ring(self) -> bool {
        false
    }
}

/// The loop that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    /// Which.
    pub chosen: Backend,
}

impl BackendChoice {
    /// Refuses what only Linux has.
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
        f.write_str("the portable loop (this program was built without what only Linux has)")
    }
}
