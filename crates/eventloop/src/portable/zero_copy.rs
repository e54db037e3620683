//! The counterpart of Linux's zero-copy sends, by ordinary sends.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use super::syscalls;

/// A pipe for zero-copy sends, which this system does not have.
#[derive(Debug, Default)]
pub struct SplicePipe;

impl SplicePipe {
    /// Creates a pipe that is never available.
    #[must_use]
    pub fn new() -> SplicePipe {
        SplicePipe
    }

    /// Returns `false`: sends copy.
    #[must_use]
    pub fn is_available(&self) -> bool {
        false
    }

    /// Sends as much of `runs` and then of `body` as there is room for. Returns the number of bytes sent.
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

    /// Returns `true`: there is no pipe that could hold bytes.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}
