//! Wakes up an event loop from another thread, using `eventfd(2)`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::syscalls;

/// Wakes up a loop from any thread. Several wake-ups will count as one if the loop has not noticed the first of them yet.
#[derive(Debug, Clone)]
pub struct Waker(Arc<File>);

impl Waker {
    /// Creates a waker. This must be done before the loop is created.
    ///
    /// Since the descriptor must have the same number in all threads, the waker should be created before any thread gets its own
    /// descriptor table.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(File::from(syscalls::eventfd()?))))
    }

    /// Wakes up the loop.
    pub fn wake(&self) {
        // This can only fail when there are 2^64 - 1 pending wake-ups. The loop will wake up anyway.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    /// Consumes pending wake-ups, so that the next one will make the descriptor readable again.
    pub(super) fn clear(&self) {
        // This only fails if there are not any.
        let _ = (&*self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    /// Returns the descriptor, which is readable after a wake-up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
