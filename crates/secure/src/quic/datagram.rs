//! Datagrams, with the addresses and ECN bits that the socket reports and sets.

use std::net::{IpAddr, SocketAddr};

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The address that it was sent from.
    pub source: SocketAddr,
    /// The address that it was sent to, if the socket reports it (`IP_PKTINFO`). Replies are sent from there.
    pub destination: Option<IpAddr>,
    /// The ECN field of its IP header, two bits (RFC 3168 §5).
    pub ecn: u8,
    /// Its content. It is copied, because parts of it may be kept until earlier data arrives, and must not keep a larger
    /// buffer alive.
    pub bytes: &'a [u8],
}

/// Describes datagrams to send, which are at the start of the caller's buffer: the term of `quinn-proto`. The caller makes a
/// train of the event loop of both.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The address to send them to.
    pub destination: SocketAddr,
    /// The address to send them from; `None` if the socket has not reported it.
    pub source: Option<IpAddr>,
    /// The ECN field of their IP headers, two bits.
    pub ecn: u8,
    /// The length of all datagrams together.
    pub bytes: usize,
    /// The length of each datagram, of which the last may be shorter; `None` if there is only one.
    pub segment_bytes: Option<usize>,
}

impl From<quinn_proto::Transmit> for Transmit {
    fn from(transmit: quinn_proto::Transmit) -> Self {
        Self {
            destination: transmit.destination,
            source: transmit.src_ip,
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            bytes: transmit.size,
            segment_bytes: transmit.segment_size,
        }
    }
}
