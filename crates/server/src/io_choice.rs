//! Which loop serves: chosen once at start, by what was ordered and what the kernel has.

use std::fmt;

use cannery_eventloop::Uring;

use crate::config::Io;
use crate::error::StartError;

/// A loop over the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// `epoll(7)`.
    Epoll,
    /// `io_uring(7)`.
    Uring,
}

/// The loop that serves, and why it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoChoice {
    /// Which.
    pub chosen: Loop,
    /// What the kernel said of the other one, if it was asked.
    pub uring: Result<(), String>,
}

impl IoChoice {
    /// Asks the kernel what it has, and chooses.
    pub(crate) fn make(wanted: Io) -> Result<IoChoice, StartError> {
        let uring = Uring::probe();
        let chosen = match (wanted, &uring) {
            (Io::Uring, Ok(())) => Loop::Uring,
            // It measured no better than epoll: see `bench/notes.md`.
            (Io::Auto | Io::Epoll, _) => Loop::Epoll,
            (Io::Uring, Err(_)) => {
                return Err(StartError::Uring(uring.err().unwrap_or(std::io::ErrorKind::Unsupported.into())));
            }
        };
        Ok(IoChoice { chosen, uring: uring.map_err(|error| error.to_string()) })
    }
}

impl fmt::Display for IoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chosen {
            Loop::Epoll => f.write_str("epoll")?,
            Loop::Uring => f.write_str("io_uring")?,
        }
        match &self.uring {
            Ok(()) => f.write_str(" (the kernel has io_uring)"),
            Err(why) => write!(f, " (io_uring cannot be used: {why})"),
        }
    }
}
