//! Wakes up an event loop from another thread, using a pair of sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes up a loop from any thread. Several wake-ups will count as one if the loop has not noticed the first of them yet.
#[derive(Debug, Clone)]
pub struct Waker(Arc<SocketPair>);

#[derive(Debug)]
struct SocketPair {
    sender: UnixStream,
    receiver: UnixStream,
}

impl Waker {
    /// Creates a waker. You need to do this before creating the loop.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn new() -> io::Result<Waker> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Waker(Arc::new(SocketPair { sender, receiver })))
    }

    /// Wakes up the loop.
    pub fn wake(&self) {
        // This can only fail when the buffer is full of pending wake-ups. The loop will wake up anyway.
        let _ = (&self.0.sender).write(&[1]);
    }

    /// Consumes pending wake-ups, so that the next one will make the descriptor readable again.
    pub(super) fn clear(&self) {
        let mut wakeups = [0; 64];
        while (&self.0.receiver).read(&mut wakeups).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Waker {
    /// Returns the descriptor, which is readable after a wake-up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.receiver.as_fd()
    }
}
