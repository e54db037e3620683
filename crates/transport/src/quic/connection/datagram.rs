//! Datagrams, with addresses and ECN bits.

use std::net::{IpAddr, SocketAddr};

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Address that it was sent from.
    pub source: SocketAddr,
    /// Address that it was sent to, if the socket reports that (`IP_PKTINFO`). Replies should be sent from
    /// there.
    pub destination: Option<IpAddr>,
    /// ECN field of the IP header, two bits (RFC 3168 §5).
    pub ecn: u8,
    /// Content of the datagram. Some parts may have to be kept until earlier data arrives; as these should
    /// not keep a larger buffer alive, the content will be copied.
    pub bytes: &'a [u8],
}

/// Describes datagrams to be sent, which are at the start of the caller's buffer (the name is
/// `quinn-proto`'s). Together with the buffer, it can be converted to a segment batch for the event loop.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Address to send them to.
    pub destination: SocketAddr,
    /// Address to send them from. `None` if the socket has not reported it.
    pub source: Option<IpAddr>,
    /// ECN field of the IP headers, two bits.
    pub ecn: u8,
    /// Total length of the datagrams.
    pub bytes: usize,
    /// Length of each datagram, although the last one may be shorter. `None` if there is only one.
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
