//! Datagrams of connection attempts.
//!
//! Each takes several microseconds, for keys of its own and for a reply. In a flood, hundreds arrive between two datagrams of a
//! connection. So they are kept, and an iteration processes a few of them, in order.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use cannery_secure::quic::Arrival;

use super::limits::{ATTEMPT_BYTES_MAX, ATTEMPTS_WAITING_MAX};

/// Datagrams that wait, oldest first.
///
/// Their contents share one buffer: allocations of their own would leave gaps between those of connections.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    queue: VecDeque<KeptDatagram>,
    /// The contents of all datagrams, in order, after those of datagrams that were removed.
    contents: Vec<u8>,
    /// The position of the first content.
    start: usize,
}

/// A datagram that waits.
#[derive(Debug)]
struct KeptDatagram {
    /// The number of the socket at which it arrived.
    socket: usize,
    source: SocketAddr,
    destination: Option<IpAddr>,
    ecn: u8,
    /// The length of its content in bytes.
    bytes: usize,
}

/// No datagram can be kept, because too many wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Attempts {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of datagrams that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Keeps a datagram that arrived at the socket of this number.
    ///
    /// # Errors
    /// Too many datagrams wait.
    pub(super) fn push(&mut self, socket: usize, arrival: &Arrival<'_>) -> Result<(), Full> {
        let &Arrival { source, destination, ecn, bytes } = arrival;
        let waiting_bytes = self.contents.len() - self.start;
        if self.queue.len() == ATTEMPTS_WAITING_MAX || waiting_bytes + bytes.len() > ATTEMPT_BYTES_MAX {
            return Err(Full);
        }

        if self.queue.is_empty() || self.contents.len() + bytes.len() > ATTEMPT_BYTES_MAX {
            self.contents.drain(..self.start);
            self.start = 0;
        }
        // The system provides the pages when they are used.
        self.contents.reserve_exact(ATTEMPT_BYTES_MAX - self.contents.len());
        self.contents.extend_from_slice(bytes);
        self.queue.push_back(KeptDatagram { socket, source, destination, ecn, bytes: bytes.len() });
        Ok(())
    }

    /// Frees the memory for datagrams if none waits.
    pub(super) fn free_unused(&mut self) {
        if self.is_empty() {
            *self = Attempts::default();
        }
    }

    /// Removes the oldest datagram. Returns it with the number of its socket.
    pub(super) fn pop(&mut self) -> Option<(usize, Arrival<'_>)> {
        let KeptDatagram { socket, source, destination, ecn, bytes } = self.queue.pop_front()?;
        let content = &self.contents[self.start..][..bytes];
        self.start += bytes;
        Some((socket, Arrival { source, destination, ecn, bytes: content }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(bytes: &[u8]) -> Arrival<'_> {
        Arrival { source: ([192, 0, 2, 1], 443).into(), destination: None, ecn: 0, bytes }
    }

    /// Datagrams are pushed and removed in turns, so that the buffer is filled several times.
    #[test]
    fn datagrams_are_returned_in_order() {
        let mut attempts = Attempts::default();
        let content = |number: usize| vec![number.to_le_bytes()[0]; 1200 + number % 7];
        let mut next = 0;
        for number in 0..2000 {
            assert_eq!(attempts.push(number, &arrival(&content(number))), Ok(()));
            // Up to 100 wait.
            while attempts.len() > 100 || number % 500 == 499 && !attempts.is_empty() {
                let (socket, popped) = attempts.pop().expect("a datagram");
                assert_eq!((socket, popped.bytes), (next, &content(next)[..]));
                next += 1;
            }
        }
        assert_eq!(next, 2000);
        assert!(attempts.pop().is_none());
        assert!(attempts.contents.capacity() <= ATTEMPT_BYTES_MAX);
    }

    #[test]
    fn memory_is_freed_when_no_datagram_waits() {
        let mut attempts = Attempts::default();
        for number in 0..2 {
            assert_eq!(attempts.push(number, &arrival(b"initial")), Ok(()));
        }
        assert!(attempts.pop().is_some());
        attempts.free_unused();
        let (socket, popped) = attempts.pop().expect("the second datagram");
        assert_eq!((socket, popped.bytes), (1, &b"initial"[..]));
        assert!(attempts.contents.capacity() > 0);
        attempts.free_unused();
        assert_eq!(attempts.contents.capacity(), 0);
    }

    #[test]
    fn number_and_memory_are_limited() {
        for (length, fit) in
            [(0, ATTEMPTS_WAITING_MAX), (1200, ATTEMPTS_WAITING_MAX), (64_000, ATTEMPT_BYTES_MAX / 64_000)]
        {
            let mut attempts = Attempts::default();
            let bytes = vec![0; length];
            for _ in 0..fit {
                assert_eq!(attempts.push(0, &arrival(&bytes)), Ok(()), "{length}");
            }
            assert_eq!(attempts.push(0, &arrival(&bytes)), Err(Full), "{length}");
            assert!(attempts.pop().is_some());
            assert_eq!(attempts.push(0, &arrival(&bytes)), Ok(()), "{length}");
            assert!(attempts.contents.capacity() <= ATTEMPT_BYTES_MAX, "{length}");
        }
    }
}
