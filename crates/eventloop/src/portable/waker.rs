//! What stands for `waker.rs` where there is no Linux, and so no `eventfd(2)`: a pair of sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes one loop from any thread. Many knocks before the loop looks count as one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Pair>);

#[derive(Debug)]
struct Pair {
    to: UnixStream,
    from: UnixStream,
}

impl Waker {
    /// A waker for a loop that is yet to be made.
    pub fn new() -> io::Result<Waker> {
        let (to, from) = UnixStream::pair()?;
        to.set_nonblocking(true)?;
        from.set_nonblocking(true)?;
        Ok(Waker(Arc::new(Pair { to, from })))
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        // It fails only where so many knocks wait that there is no room for another: the loop will wake all the same.
        let _ = (&self.0.to).write(&[1]);
    }

    /// Takes the knocks, so that the next one wakes again.
    pub(crate) fn clear(&self) {
        let mut knocks = [0; 64];
        while (&self.0.from).read(&mut knocks).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Waker {
    /// What becomes readable at a knock.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.from.as_fd()
    }
}
