//! Another thread's knock: wakes a loop that waits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::syscalls as sys;

/// Wakes one loop from any thread. Many knocks before the loop looks count as one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<File>);

impl Waker {
    /// A waker for a loop that is yet to be made.
    ///
    /// Its descriptor must be the same in the tables of all who knock: it is made before any of them gets
    /// a table of its own.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(File::from(sys::eventfd()?))))
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        // It fails only where 2^64 knocks wait already: the loop will wake all the same.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    /// Takes the knocks, so that the next one wakes again.
    pub(crate) fn clear(&self) {
        // It fails only where there were none.
        let _ = (&*self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
