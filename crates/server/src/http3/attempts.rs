//! Datagrams of connection attempts.
//!
//! Each takes several microseconds, for keys of its own and for a reply. In a flood, hundreds arrive between two datagrams of a
//! connection. So they are kept, and an iteration processes a few of them, in order.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use cannery_secure::quic::Arrival;

use super::limits::ATTEMPT_BYTES_MAX;

/// The least memory that a datagram counts for, in bytes, so that their number is limited too.
const COUNTED_BYTES_MIN: usize = 1200;

/// Datagrams that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    queue: VecDeque<KeptDatagram>,
    /// The memory of all of them.
    bytes: usize,
}

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct KeptDatagram {
    /// The number of the socket at which it arrived.
    pub(super) socket: usize,
    source: SocketAddr,
    destination: Option<IpAddr>,
    ecn: u8,
    bytes: Box<[u8]>,
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
        let total = self.bytes + memory(bytes);
        if total > ATTEMPT_BYTES_MAX {
            return Err(Full);
        }
        self.bytes = total;
        self.queue.push_back(KeptDatagram { socket, source, destination, ecn, bytes: bytes.into() });
        Ok(())
    }

    /// Removes the oldest datagram.
    pub(super) fn pop(&mut self) -> Option<KeptDatagram> {
        let datagram = self.queue.pop_front()?;
        self.bytes -= memory(&datagram.bytes);
        Some(datagram)
    }
}

impl KeptDatagram {
    pub(super) fn arrival(&self) -> Arrival<'_> {
        let KeptDatagram { source, destination, ecn, ref bytes, .. } = *self;
        Arrival { source, destination, ecn, bytes }
    }
}

/// Returns the memory that a datagram with this content counts for, in bytes.
fn memory(content: &[u8]) -> usize {
    size_of::<KeptDatagram>() + content.len().max(COUNTED_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(bytes: &[u8]) -> Arrival<'_> {
        Arrival { source: ([192, 0, 2, 1], 443).into(), destination: None, ecn: 0, bytes }
    }

    #[test]
    fn datagrams_are_returned_in_order() {
        let mut attempts = Attempts::default();
        for (socket, bytes) in [b"first" as &[u8], b"second"].into_iter().enumerate() {
            assert_eq!(attempts.push(socket, &arrival(bytes)), Ok(()));
        }
        let mut popped = || attempts.pop().map(|kept| (kept.socket, kept.arrival().bytes.to_vec()));
        assert_eq!(popped(), Some((0, b"first".to_vec())));
        assert_eq!(popped(), Some((1, b"second".to_vec())));
        assert_eq!(popped(), None);
        assert_eq!(attempts.bytes, 0);
    }

    #[test]
    fn memory_is_bounded_for_datagrams_of_any_length() {
        for length in [0, 1200, ATTEMPT_BYTES_MAX + 1] {
            let mut attempts = Attempts::default();
            let bytes = vec![0; length];
            while attempts.push(0, &arrival(&bytes)).is_ok() {
                assert!(attempts.bytes <= ATTEMPT_BYTES_MAX, "{length}");
            }
            assert!(attempts.len() <= 256, "{length}");
            // There is room again.
            let is_kept = attempts.pop().is_some();
            assert_eq!(is_kept, length <= ATTEMPT_BYTES_MAX, "{length}");
            assert_eq!(attempts.push(0, &arrival(&bytes)).is_ok(), is_kept, "{length}");
        }
    }
}
