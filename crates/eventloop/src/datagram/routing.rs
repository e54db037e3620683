//! Routes QUIC datagrams to workers by a byte in the connection ID.
//!
//! By default, the kernel distributes datagrams among sockets by a hash of the peer's address. Clients may change networks,
//! however, and their connections would then end up at another worker. To avoid this, our connection IDs carry the worker's number
//! at a fixed position, and a small program in the kernel selects the socket by this number.
//!
//! Workers will still receive some datagrams that are meant for others: the kernel only looks at the first of several merged
//! datagrams, and some systems do not support such programs at all. Each worker therefore applies the same rule to each datagram
//! and drops those of other workers. We expect clients to send them again.

use std::io;

use super::UdpSocket;
use crate::platform;

/// Assigns datagrams to workers, based on nothing but the version-independent part of QUIC headers (RFC 8999 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerRouting {
    /// Number of workers, which is also the number of sockets that share the address.
    pub workers: u8,
    /// Offset of the worker's number in our connection IDs. Must be below 20.
    pub worker_byte: u8,
}

/// First bit of a long header. Long headers have an explicit connection ID length (RFC 8999 §5.1).
pub(crate) const LONG_HEADER: u8 = 0x80;

/// Offset of the connection ID length in a long header, right after the first byte and the version.
pub(crate) const LONG_LENGTH_AT: u8 = 5;

/// Position of the connection ID in a long header.
pub(crate) const LONG_ID_AT: u8 = 6;

/// Position of the connection ID in a short header.
pub(crate) const SHORT_ID_AT: u8 = 1;

/// Used in place of the worker byte when the connection ID is too short to have one. Clients choose a random ID first, and an
/// Initial packet's ID MUST have at least eight bytes (RFC 9000 §7.2), so this byte is random too.
pub(crate) const RANDOM_BYTE: u8 = 3;

impl WorkerRouting {
    /// Returns the number of the worker that a datagram is for. Datagrams that are too short to tell go to worker 0.
    #[must_use]
    pub fn worker_of(&self, datagram: &[u8]) -> u8 {
        self.routing_byte(datagram).map_or(0, |byte| byte % self.workers.max(1))
    }

    fn routing_byte(&self, datagram: &[u8]) -> Option<u8> {
        let at = |position: u8| datagram.get(usize::from(position)).copied();
        if at(0)? & LONG_HEADER == 0 {
            return at(SHORT_ID_AT + self.worker_byte);
        }
        let has_worker_byte = at(LONG_LENGTH_AT)? > self.worker_byte;
        at(LONG_ID_AT + if has_worker_byte { self.worker_byte } else { RANDOM_BYTE })
    }

    /// Makes the kernel apply this rule to all sockets that share the address of this one, numbered in the order in which they were
    /// bound. If there is a single socket, nothing will change.
    ///
    /// Do not close just one of several sockets: the last one would then take its place.
    ///
    /// # Errors
    /// Fails if the system does not support such programs.
    pub fn attach(&self, socket: &UdpSocket) -> io::Result<()> {
        if self.workers < 2 { Ok(()) } else { platform::attach_routing(socket, *self) }
    }
}
