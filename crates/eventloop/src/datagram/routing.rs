//! Routes QUIC datagrams to workers by a byte in the connection ID.
//!
//! By default, the kernel distributes datagrams among sockets by a hash of the peer's address. When a client changes networks,
//! its connection would end up at another worker. So we put the worker's number at a fixed position in our connection IDs, and
//! give the kernel a program that selects the socket by this number.
//!
//! Still, workers may receive datagrams for other workers. When datagrams are merged, the kernel only looks at the first of
//! them, and some systems do not support such programs. So each worker applies the same rule to each datagram, and drops those
//! that belong to others. Clients will send them again.

use std::io;

use super::UdpSocket;
use crate::platform;

/// Assigns datagrams to workers. This only depends on the version-independent part of QUIC headers (RFC 8999 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerRouting {
    /// Number of workers. This is also the number of sockets that share the address.
    pub workers: u8,
    /// Where the worker's number is in our connection IDs. Must be below 20.
    pub worker_byte: u8,
}

/// First bit of a long header. Long headers include the length of the connection ID (RFC 8999 §5.1).
pub(crate) const LONG_HEADER: u8 = 0x80;

/// Where a long header has the length of the connection ID. It comes after the first byte and the version.
pub(crate) const LONG_LENGTH_AT: u8 = 5;

/// Where a long header has the connection ID.
pub(crate) const LONG_ID_AT: u8 = 6;

/// Where a short header has the connection ID.
pub(crate) const SHORT_ID_AT: u8 = 1;

/// Clients choose a random connection ID first. If it's too short to have a worker byte, we use this byte instead. IDs in Initial
/// packets have at least eight bytes (RFC 9000 §7.2).
pub(crate) const RANDOM_BYTE: u8 = 3;

impl WorkerRouting {
    /// Returns which worker a datagram is for. If it's too short to tell, that is worker 0.
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

    /// Makes the kernel apply this rule to all sockets that share the address of this one. It numbers them by the order in which
    /// they were bound. This does nothing if there is a single socket.
    ///
    /// Do not close one of several sockets because the last one would then take its place.
    ///
    /// # Errors
    /// The system does not support such programs.
    pub fn attach(&self, socket: &UdpSocket) -> io::Result<()> {
        if self.workers < 2 { Ok(()) } else { platform::attach_routing(socket, *self) }
    }
}
