//! Wakes up an event loop from another thread, by a pair of sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes up one loop from any thread. Several wake-ups before the loop notices count as one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<SocketPair>);

#[derive(Debug)]
struct SocketPair {
    sender: UnixStream,
    receiver: UnixStream,
}

impl Waker {
    /// Creates the waker of a loop, before the loop.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Waker(Arc::new(SocketPair { sender, receiver })))
    }

    /// Wakes up the loop.
    pub fn wake(&self) {
        // Fails only if the buffer is full of pending wake-ups: the loop wakes up anyway.
        let _ = (&self.0.sender).write(&[1]);
    }

    /// Consumes pending wake-ups, so that the next one makes the descriptor readable again.
    pub(super) fn clear(&self) {
        let mut wakeups = [0; 64];
        while (&self.0.receiver).read(&mut wakeups).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Waker {
    /// Returns the descriptor that a wake-up makes readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.receiver.as_fd()
    }
}
