//! Control messages: what system calls take and return along with a datagram's bytes.
//!
//! A control message consists of a header (length, level, type) and data, both padded; see `cmsg(3)`. We read and write them as
//! plain bytes to avoid `unsafe` code. This way, an invalid length can never lead us out of the buffer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::c_int;

use super::Ecn;

/// Size of the buffer for a received datagram's control messages. Currently there are up to six of them on Linux, of up to 40 bytes
/// each.
pub(super) const CONTROL_BYTES: usize = 256;

/// Type of the length field: `size_t` for the Linux kernel, `socklen_t` elsewhere.
#[cfg(target_os = "linux")]
type Length = usize;
#[cfg(not(target_os = "linux"))]
type Length = libc::socklen_t;

const LENGTH_BYTES: usize = size_of::<Length>();

/// Alignment of headers and data.
#[cfg(target_vendor = "apple")]
const ALIGNMENT: usize = 4;
#[cfg(not(target_vendor = "apple"))]
const ALIGNMENT: usize = size_of::<usize>();

/// Size of a header without padding.
const HEADER_BYTES: usize = LENGTH_BYTES + 8;

/// Start of the data.
const DATA_START: usize = HEADER_BYTES.next_multiple_of(ALIGNMENT);

/// The local address of an IPv4 datagram: type of the control message and offset of the address in its data. Both depend on the
/// direction.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod ipv4_info {
    pub(super) const TYPE: libc::c_int = libc::IP_PKTINFO;
    /// `in_pktinfo`: index of the interface, local address, address in the header.
    pub(super) const DATA_BYTES: usize = 12;
    pub(super) const RECEIVED_AT: usize = 8;
    pub(super) const SENT_AT: usize = 4;
}
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod ipv4_info {
    pub(super) const TYPE: libc::c_int = libc::IP_RECVDSTADDR;
    pub(super) const DATA_BYTES: usize = 4;
    pub(super) const RECEIVED_AT: usize = 0;
    pub(super) const SENT_AT: usize = 0;
}

/// The type of control message that has the Type of Service field.
#[cfg(target_os = "linux")]
const TOS_RECEIVED: c_int = libc::IP_TOS;
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
const TOS_RECEIVED: c_int = libc::IP_RECVTOS;
#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
const TOS_RECEIVED: c_int = -1;

/// Contents of the control messages of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// The local address where the datagrams arrived.
    pub(super) destination: Option<IpAddr>,
    pub(super) ecn: Option<Ecn>,
    /// The size of each merged datagram.
    pub(super) segment_bytes: Option<usize>,
    /// Number of datagrams the kernel has discarded because the receive buffer was full.
    pub(super) discarded: Option<u32>,
}

impl Report {
    /// Parses control messages. Ignores those that are unknown or malformed.
    pub(super) fn parse(mut control: &[u8]) -> Report {
        let mut report = Report::default();
        while let Some((message, rest)) = ControlMessage::split(control) {
            report.add(message);
            control = rest;
        }
        report
    }

    fn add(&mut self, message: ControlMessage<'_>) {
        let ControlMessage { level, kind, data } = message;

        match (level, kind) {
            (libc::IPPROTO_IP, ipv4_info::TYPE) => {
                let address = data.get(ipv4_info::RECEIVED_AT..).and_then(|data| data.first_chunk::<4>());
                if let Some(address) = address {
                    self.destination = Some(Ipv4Addr::from(*address).into());
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let Some(address) = data.first_chunk::<16>() {
                    self.destination = Some(Ipv6Addr::from(*address).into());
                }
            }
            (libc::IPPROTO_IP, TOS_RECEIVED) => {
                self.ecn = data.first().and_then(|bits| Ecn::from_traffic_class(*bits));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = data.first_chunk::<4>().map(|class| c_int::from_ne_bytes(*class).to_le_bytes());
                self.ecn = class.and_then(|[bits, ..]| Ecn::from_traffic_class(bits));
            }
            #[cfg(target_os = "linux")]
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let bytes = data.first_chunk::<4>().map(|bytes| c_int::from_ne_bytes(*bytes));
                self.segment_bytes =
                    bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
            }
            #[cfg(target_os = "linux")]
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                self.discarded = data.first_chunk::<4>().map(|count| u32::from_ne_bytes(*count));
            }
            _ => {}
        }
    }
}

/// A control message.
#[derive(Debug, Clone, Copy)]
struct ControlMessage<'a> {
    /// The protocol that the message belongs to.
    level: c_int,
    /// The type of the message.
    kind: c_int,
    data: &'a [u8],
}

impl<'a> ControlMessage<'a> {
    /// Splits off the next message and returns it with the rest, or `None` if the message is malformed or there are no more.
    fn split(control: &'a [u8]) -> Option<(ControlMessage<'a>, &'a [u8])> {
        #[allow(clippy::useless_conversion, reason = "another type on other systems")]
        let length = usize::try_from(Length::from_ne_bytes(*control.first_chunk()?)).ok()?;
        let field = |start: usize| Some(c_int::from_ne_bytes(*control.get(start..)?.first_chunk()?));
        let level = field(LENGTH_BYTES)?;
        let kind = field(LENGTH_BYTES + 4)?;
        let data = control.get(DATA_START..length)?;
        let end = length.next_multiple_of(ALIGNMENT).min(control.len());
        Some((ControlMessage { level, kind, data }, &control[end..]))
    }
}

/// The control messages for a segment batch.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub(crate) struct Request {
    bytes: [u8; REQUEST_BYTES],
    length: usize,
}

/// Room for the control messages of a segment batch: source, ECN, datagram size.
const REQUEST_BYTES: usize = 96;

impl Request {
    pub(super) const fn new() -> Request {
        Request { bytes: [0; REQUEST_BYTES], length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Sets the local address to send from.
    pub(super) fn set_source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(source) => {
                let mut data = [0; ipv4_info::DATA_BYTES];
                data[ipv4_info::SENT_AT..][..4].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IP, ipv4_info::TYPE, &data);
            }
            IpAddr::V6(source) => {
                // `in6_pktinfo`: an address and an interface index (up to routing).
                let mut data = [0; 20];
                data[..16].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
            }
        }
    }

    /// Sets the ECN codepoint. How this is done depends on the destination.
    pub(super) fn set_ecn(&mut self, ecn: Ecn, destination: SocketAddr) {
        let is_ipv4 = destination.ip().to_canonical().is_ipv4();
        let class = c_int::from(ecn as u8).to_ne_bytes();
        if is_ipv4 && cfg!(target_os = "freebsd") {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, &[ecn as u8]);
        } else if is_ipv4 {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, &class);
        } else {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
        }
    }

    /// Asks the system to split the segment batch into datagrams of this size.
    #[cfg(target_os = "linux")]
    pub(super) fn set_segment_bytes(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    /// Does nothing because other systems do not split segment batches.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn set_segment_bytes(&mut self, _: u16) {}

    fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let start = self.length;
        let length = DATA_START + data.len();
        let message = &mut self.bytes[start..][..length.next_multiple_of(ALIGNMENT)];
        let length_field = Length::try_from(length).expect("a short message");
        message[..LENGTH_BYTES].copy_from_slice(&length_field.to_ne_bytes());
        message[LENGTH_BYTES..][..4].copy_from_slice(&level.to_ne_bytes());
        message[LENGTH_BYTES + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
        message[DATA_START..length].copy_from_slice(data);
        self.length += message.len();
    }
}

#[cfg(test)]
mod tests;
