//! Routing of QUIC datagrams to workers by a byte of the connection ID.
//!
//! The kernel would distribute datagrams among the sockets of an address by a hash of the peer's address, so a connection
//! would move to another worker when its client changes networks. Instead, our connection IDs hold the number of the worker
//! at a fixed position, and we give the kernel a program that selects the socket by it.
//!
//! A worker may receive datagrams of another one nevertheless: the kernel selects a socket for merged datagrams by the first
//! of them, and some systems have no such programs. So each worker applies the same rule to each datagram, and drops those
//! of others. Their clients send them again.

use std::io;

use super::UdpSocket;
use crate::platform;

/// The rule that assigns a datagram to a worker: it depends only on the invariant part of QUIC's headers (RFC 8999 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerRouting {
    /// The number of workers: that of the sockets which share the address.
    pub workers: u8,
    /// The position of the worker's number in our connection IDs, below 20.
    pub worker_byte: u8,
}

/// The first bit of a long header, which also has the length of the connection ID (RFC 8999 §5.1).
pub(crate) const LONG_HEADER: u8 = 0x80;

/// The position of the length of the connection ID in a long header, after the first byte and the version.
pub(crate) const LONG_LENGTH_AT: u8 = 5;

/// The position of the connection ID in a long header.
pub(crate) const LONG_ID_AT: u8 = 6;

/// The position of the connection ID in a short header.
pub(crate) const SHORT_ID_AT: u8 = 1;

/// The byte of a client's random connection ID that decides if the ID is too short to have a worker byte. The ID of an
/// Initial packet has at least eight bytes (RFC 9000 §7.2).
pub(crate) const RANDOM_BYTE: u8 = 3;

impl WorkerRouting {
    /// Returns the worker of a datagram. One that is too short for the rule belongs to worker 0.
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

    /// Makes the kernel apply the rule to all sockets that share the address of this one: it selects the socket by the order
    /// in which they were bound. Has no effect on a single socket.
    ///
    /// Closing one of several sockets would change the order: the last one takes its place.
    ///
    /// # Errors
    /// The system has no such programs.
    pub fn attach(&self, socket: &UdpSocket) -> io::Result<()> {
        if self.workers < 2 { Ok(()) } else { platform::attach_routing(socket, *self) }
    }
}
