//! Wakes up an event loop from another thread, by `eventfd(2)`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::syscalls;

/// Wakes up one loop from any thread. Several wake-ups before the loop notices count as one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<File>);

impl Waker {
    /// Creates the waker of a loop, before the loop.
    ///
    /// The descriptor must have the same number in the tables of all threads that use it, so create the waker before any of
    /// them gets a table of its own.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(File::from(syscalls::eventfd()?))))
    }

    /// Wakes up the loop.
    pub fn wake(&self) {
        // Fails only if 2^64 - 1 wake-ups are pending: the loop wakes up anyway.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    /// Consumes pending wake-ups, so that the next one makes the descriptor readable again.
    pub(super) fn clear(&self) {
        // Fails only if none is pending.
        let _ = (&*self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    /// Returns the descriptor that a wake-up makes readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
