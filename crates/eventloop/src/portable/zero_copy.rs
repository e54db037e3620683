//! Replaces Linux's zero-copy sends with ordinary sends.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use super::syscalls;

/// Replacement for the pipe that Linux uses for zero-copy sends.
#[derive(Debug, Default)]
pub struct SplicePipe;

impl SplicePipe {
    /// Creates a pipe. (Never available here.)
    #[must_use]
    pub fn new() -> SplicePipe {
        SplicePipe
    }

    /// Returns `false` because sends have to copy.
    #[must_use]
    pub fn is_available(&self) -> bool {
        false
    }

    /// Sends as much of `runs` followed by `body` as there is room for and returns the number of bytes sent.
    #[expect(clippy::unused_self, reason = "the interface of Linux's pipe")]
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        runs: &[IoSlice<'_>],
        body: &[u8],
    ) -> io::Result<usize> {
        let runs_bytes = runs.iter().map(|run| run.len()).sum();
        let sent = if runs_bytes == 0 { 0 } else { syscalls::send_vectored(socket, runs)?.unwrap_or(0) };
        if sent < runs_bytes {
            return Ok(sent);
        }
        Ok(sent + syscalls::send(socket, body)?.unwrap_or(0))
    }

    /// Returns `true` because there is not a real pipe.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}
