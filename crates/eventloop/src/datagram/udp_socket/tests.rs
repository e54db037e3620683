//! Tests for sends that the kernel refuses.

use std::net::{Ipv4Addr, UdpSocket as Peer};
use std::time::Duration;

use super::*;

/// Opens a socket and a peer.
fn pair(address: Ipv4Addr) -> (UdpSocket, Peer) {
    let options = DatagramOptions::default();
    let socket = new_socket(SocketAddr::from((address, 0)), IpVersions::One).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    let peer = Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (UdpSocket::new(socket, options).unwrap(), peer)
}

fn segment_batch<'a>(peer: &Peer, bytes: &'a [u8]) -> SegmentBatch<'a> {
    let destination = peer.local_addr().unwrap();
    SegmentBatch { destination, source: None, ecn: None, bytes, segment_bytes: Some(1000) }
}

#[cfg(target_os = "linux")]
#[test]
fn socket_that_cannot_split_sends_singly() {
    let (socket, peer) = pair(Ipv4Addr::LOCALHOST);
    let had_gso = socket.has_gso();
    // Without checksums, the kernel refuses to split datagrams.
    syscalls::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    for round in 0..2 {
        let bytes = [round; 2500];
        assert_eq!(socket.send(&segment_batch(&peer, &bytes)), SendOutcome::Sent);
        for length in [1000, 1000, 500] {
            let mut buffer = [0; 2000];
            assert_eq!(peer.recv(&mut buffer).unwrap(), length);
            assert!(buffer[..length] == bytes[..length]);
        }
        assert!(!socket.has_gso());
        let error = socket.take_gso_error().and_then(|error| error.raw_os_error());
        assert_eq!(error, (round == 0 && had_gso).then_some(libc::EINVAL));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_beyond_the_mtu_leave_gso_on() {
    use std::net::Ipv6Addr;
    use std::os::fd::AsFd;

    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let Ok(peer) = Peer::bind(address) else { return println!("skipped: this kernel has no IPv6") };
    let socket = new_socket(address, IpVersions::One).unwrap();
    socket.bind(&address.into()).unwrap();
    let socket = UdpSocket::new(socket, DatagramOptions::default()).unwrap();
    let has_gso = socket.has_gso();
    syscalls::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU, 1280).unwrap();
    // With a header of 48 bytes.
    for (segment_bytes, outcome) in [(1232, SendOutcome::Sent), (1233, SendOutcome::Lost)] {
        let bytes = [7; 4000];
        let segments = SegmentBatch { segment_bytes: Some(segment_bytes), ..segment_batch(&peer, &bytes) };
        assert_eq!(socket.send(&segments), outcome);
        assert_eq!(socket.has_gso(), has_gso);
    }
}

#[test]
fn foreign_source_address_is_a_loss() {
    let (socket, peer) = pair(Ipv4Addr::UNSPECIFIED);
    let has_gso = socket.has_gso();
    let foreign = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    let bytes = [7; 2500];
    assert_eq!(
        socket.send(&SegmentBatch { source: foreign, ..segment_batch(&peer, &bytes) }),
        SendOutcome::Lost
    );
    assert_eq!(socket.has_gso(), has_gso);
    assert!(socket.take_gso_error().is_none());
}
