//! Control messages: the data about a datagram that a system call takes and returns in addition to its bytes.
//!
//! A control message has a header (length, level, type) and data, both padded (`cmsg(3)`). We read and write them as bytes:
//! that needs no `unsafe` code, and no length can lead outside of the buffer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::c_int;

use super::Ecn;

/// Room for the control messages of a received datagram: on Linux up to six, of at most 40 bytes each.
pub(super) const CONTROL_BYTES: usize = 256;

/// The type of the length field: `size_t` for the kernel of Linux, `socklen_t` elsewhere.
#[cfg(target_os = "linux")]
type Length = usize;
#[cfg(not(target_os = "linux"))]
type Length = libc::socklen_t;

const LENGTH_BYTES: usize = size_of::<Length>();

/// The alignment of headers and data.
#[cfg(target_vendor = "apple")]
const ALIGNMENT: usize = 4;
#[cfg(not(target_vendor = "apple"))]
const ALIGNMENT: usize = size_of::<usize>();

/// The bytes of a header without its padding.
const HEADER_BYTES: usize = LENGTH_BYTES + 8;

/// The position of the data.
const DATA_START: usize = HEADER_BYTES.next_multiple_of(ALIGNMENT);

/// The local address of a datagram over IPv4: the type of the message, and the position of the address in its data when
/// received and when sent.
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

/// The type of the message that brings the Type of Service field.
#[cfg(target_os = "linux")]
const TOS_RECEIVED: c_int = libc::IP_TOS;
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
const TOS_RECEIVED: c_int = libc::IP_RECVTOS;
#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
const TOS_RECEIVED: c_int = -1;

/// The data about a received message in its control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// The local address at which the datagrams arrived.
    pub(super) destination: Option<IpAddr>,
    pub(super) ecn: Option<Ecn>,
    /// The size of the merged datagrams.
    pub(super) segment_bytes: Option<usize>,
    /// Datagrams that the kernel has discarded, because the receive buffer was full.
    pub(super) discarded: Option<u32>,
}

impl Report {
    /// Parses control messages. Ignores unknown and malformed ones.
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
    /// Splits the next message off, and returns it with those after it. Returns `None` at the end, and if the message is
    /// malformed.
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

/// The control messages of a train.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub(crate) struct Request {
    bytes: [u8; REQUEST_BYTES],
    length: usize,
}

/// Room for the control messages of a train: source, ECN, size of datagrams.
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
                // `in6_pktinfo`: address, and index of the interface, which routing determines.
                let mut data = [0; 20];
                data[..16].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
            }
        }
    }

    /// Sets the ECN codepoint for datagrams to this address.
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

    /// Makes the system split the train into datagrams of this size.
    #[cfg(target_os = "linux")]
    pub(super) fn set_segment_bytes(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    /// Does nothing: other systems don't split trains.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ECN: [Option<Ecn>; 4] = [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)];

    /// Returns control messages as the system writes them.
    fn control(messages: &[(c_int, c_int, Vec<u8>)]) -> Request {
        let mut control = Request::new();
        for (level, kind, data) in messages {
            control.push(*level, *kind, data);
        }
        control
    }

    fn ipv4_info(address: Ipv4Addr) -> (c_int, c_int, Vec<u8>) {
        let mut data = vec![0xee; ipv4_info::DATA_BYTES];
        data[ipv4_info::RECEIVED_AT..][..4].copy_from_slice(&address.octets());
        (libc::IPPROTO_IP, ipv4_info::TYPE, data)
    }

    fn ipv6_info(address: Ipv6Addr) -> (c_int, c_int, Vec<u8>) {
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, [&address.octets()[..], &[7; 4]].concat())
    }

    #[test]
    fn request_has_the_layout_of_the_system() {
        let mut request = Request::new();
        assert!(request.as_bytes().is_empty());
        request.set_source(Ipv6Addr::LOCALHOST.into());
        request.set_ecn(Ecn::Ce, (Ipv6Addr::LOCALHOST, 1).into());
        request.set_segment_bytes(1200);
        let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(request.as_bytes()).unwrap();
        assert_eq!((level, kind, data.len()), (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20));
        let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(rest).unwrap();
        assert_eq!((level, kind, data), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &3i32.to_ne_bytes()[..]));
        // Elsewhere there is no message for segments.
        assert!(cfg!(target_os = "linux") || rest.is_empty());
        #[cfg(target_os = "linux")]
        {
            let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(rest).unwrap();
            assert_eq!((level, kind, data), (libc::SOL_UDP, 103, &1200u16.to_ne_bytes()[..]));
            assert!(ControlMessage::split(rest).is_none());
        }
    }

    #[test]
    fn length_that_leads_outside_is_refused() {
        let info = control(&[ipv4_info(Ipv4Addr::LOCALHOST)]);
        let bytes = info.as_bytes();
        assert_eq!(Report::parse(bytes).destination, Some(Ipv4Addr::LOCALHOST.into()));
        let end = Length::try_from(bytes.len()).unwrap();
        for length in [0, 1, 11, end + 1, Length::MAX - 7, Length::MAX] {
            let malformed = [&length.to_ne_bytes()[..], &bytes[LENGTH_BYTES..]].concat();
            assert_eq!(Report::parse(&malformed), Report::default(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL_BYTES)) {
            Report::parse(&bytes);
        }

        #[test]
        fn report_is_parsed_in_any_order(
            address in any::<Option<Ipv4Addr>>(),
            other in any::<Ipv6Addr>(),
            class in any::<u8>(),
            unknown in proptest::collection::vec(any::<u8>(), 0..9),
            swapped in any::<bool>(),
            cut in 0usize..200,
        ) {
            let (info, tos) = match address {
                Some(address) => (ipv4_info(address), (libc::IPPROTO_IP, TOS_RECEIVED, vec![class])),
                None => {
                    let class = c_int::from(class).to_ne_bytes().to_vec();
                    (ipv6_info(other), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class))
                }
            };
            let mut messages = vec![info, (libc::SOL_SOCKET, 12_345, unknown), tos];
            if swapped {
                messages.reverse();
            }
            let control = control(&messages);
            let report = Report::parse(control.as_bytes());
            prop_assert_eq!(report.destination, Some(address.map_or(other.into(), IpAddr::from)));
            prop_assert_eq!(report.ecn, Ecn::from_traffic_class(class));
            prop_assert!(ECN.contains(&report.ecn));

            // A part of it yields the same data or none.
            let bytes = control.as_bytes();
            let part = Report::parse(&bytes[..cut.min(bytes.len())]);
            prop_assert!(part.destination.is_none() || part.destination == report.destination);
            prop_assert!(part.ecn.is_none() || part.ecn == report.ecn);
        }
    }
}
