//! Forwards datagrams to other workers, which may also belong to the process we are taking over from.
//!
//! Usually, the kernel selects the right worker by the connection ID of a datagram. However, there are two
//! exceptions. First, if a client sends several datagrams at once, the kernel can merge them and only look at
//! the first, although the others might belong to different connections of that client. Second, a process that
//! takes over shares its sockets with the old one and will receive some of its datagrams.
//!
//! A forwarded datagram is sent as the content of another datagram over the loopback interface, with a
//! header that contains the addresses and a key that is only known to processes of this server. The receiver
//! responds with the shared socket, so the detour is invisible to clients.
//!
//! We use sockets for this because the other worker can be in another process. In addition, the kernel
//! bounds their queues, and the event loop can wait for them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use cannery_eventloop::{DatagramSocket, SegmentBatch};
use cannery_transport::quic::{Arrival, FORWARDING_KEY_BYTES};

/// Length, in bytes, of an address in the header: an IPv6 address, plus a byte that marks those which stand
/// for an IPv4 address.
const ADDRESS_BYTES: usize = 17;

/// Length of the header: key, socket number, ECN, source address and port, destination address.
const HEADER_BYTES: usize = FORWARDING_KEY_BYTES + 2 + ADDRESS_BYTES + 2 + 1 + ADDRESS_BYTES;

/// Forwards a worker's datagrams to others and parses datagrams that were forwarded to this worker.
#[derive(Debug)]
pub(super) struct Forwarding<D> {
    socket: D,
    key: [u8; FORWARDING_KEY_BYTES],
    buffer: Vec<u8>,
}

impl<D: DatagramSocket> Forwarding<D> {
    pub(super) fn new(socket: D, key: [u8; FORWARDING_KEY_BYTES]) -> Forwarding<D> {
        Forwarding { socket, key, buffer: Vec::new() }
    }

    pub(super) fn socket(&self) -> &D {
        &self.socket
    }

    /// Forwards a datagram that was received by the socket `number` to the forwarding socket of another
    /// worker. The datagram will be lost if that socket is full.
    pub(super) fn forward(&mut self, destination: SocketAddr, number: usize, arrival: &Arrival<'_>) {
        // With more than 256 addresses, clients of the others have to send the datagram again.
        let Ok(number) = u8::try_from(number) else { return };
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.key);
        self.buffer.extend_from_slice(&[number, arrival.ecn]);
        put_address(&mut self.buffer, arrival.source.ip());
        self.buffer.extend_from_slice(&arrival.source.port().to_be_bytes());
        self.buffer.push(arrival.destination.is_some().into());
        put_address(&mut self.buffer, arrival.destination.unwrap_or(Ipv6Addr::UNSPECIFIED.into()));
        self.buffer.extend_from_slice(arrival.bytes);

        let segments =
            SegmentBatch { destination, source: None, ecn: None, bytes: &self.buffer, segment_bytes: None };
        let _ = self.socket.send(&segments);
    }

    /// Parses a forwarded datagram. Returns the number of the socket that received it as well as the
    /// datagram, or `None` if it is invalid.
    pub(super) fn parse<'d>(&self, bytes: &'d [u8]) -> Option<(usize, Arrival<'d>)> {
        let (header, content) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (key, rest) = header.split_first_chunk::<FORWARDING_KEY_BYTES>()?;
        if !cannery_transport::quic::are_equal(key, &self.key) {
            return None;
        }

        let ([number, ecn], rest) = rest.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let ([has_destination], rest) = rest.split_first_chunk()?;
        let destination = rest.first_chunk().filter(|_| *has_destination != 0);
        let arrival = Arrival {
            source: SocketAddr::new(read_address(source), u16::from_be_bytes(*port)),
            destination: destination.map(read_address),
            ecn: *ecn,
            bytes: content,
        };
        Some((usize::from(*number), arrival))
    }
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    let (is_ipv4, address) = match address {
        IpAddr::V4(address) => (1, address.to_ipv6_mapped()),
        IpAddr::V6(address) => (0, address),
    };
    out.push(is_ipv4);
    out.extend_from_slice(&address.octets());
}

fn read_address([is_ipv4, octets @ ..]: &[u8; ADDRESS_BYTES]) -> IpAddr {
    let address = Ipv6Addr::from(*octets);
    match address.to_ipv4_mapped() {
        Some(address) if *is_ipv4 != 0 => address.into(),
        _ => address.into(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::io;

    use super::*;
    use cannery_eventloop::{Backlog, ReceiveBatch, SendOutcome};

    /// Records the last datagram.
    #[derive(Default)]
    pub(in crate::http3) struct Recorder(pub(in crate::http3) RefCell<Option<(SocketAddr, Vec<u8>)>>);

    impl DatagramSocket for Recorder {
        fn receive(&self, _: &mut ReceiveBatch) -> io::Result<Backlog> {
            Ok(Backlog::Empty)
        }

        fn send(&self, segments: &SegmentBatch<'_>) -> SendOutcome {
            *self.0.borrow_mut() = Some((segments.destination, segments.bytes.to_vec()));
            SendOutcome::Sent
        }

        fn local_address(&self) -> SocketAddr {
            ([127, 0, 0, 1], 1).into()
        }
    }

    #[test]
    fn forwarded_datagrams_are_those_that_arrived() {
        let mut forwarding = Forwarding::new(Recorder::default(), [9; FORWARDING_KEY_BYTES]);
        for (source, destination) in [
            ("192.0.2.1:443", Some("198.51.100.1")),
            ("[2001:db8::1]:5", Some("2001:db8::2")),
            ("[::ffff:192.0.2.1]:5", None),
        ] {
            let source: SocketAddr = source.parse().unwrap();
            let destination = destination.map(|address| address.parse().unwrap());
            let arrival = Arrival { source, destination, ecn: 2, bytes: b"datagram" };
            forwarding.forward(([127, 0, 0, 1], 8).into(), 3, &arrival);

            let (to, bytes) = forwarding.socket().0.borrow_mut().take().unwrap();
            assert_eq!(to.port(), 8);
            let (number, parsed) = forwarding.parse(&bytes).unwrap();
            assert_eq!((number, parsed.source, parsed.destination), (3, source, destination));
            assert_eq!((parsed.ecn, parsed.bytes), (2, b"datagram".as_slice()));

            let other = Forwarding::new(Recorder::default(), [8; FORWARDING_KEY_BYTES]);
            assert!(other.parse(&bytes).is_none(), "another key");
            assert!(forwarding.parse(&bytes[..HEADER_BYTES - 1]).is_none());
        }
    }
}
