//! Tests for load balancing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

fn two_balancers() -> (Balancer, Balancer) {
    let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
    let mut balancers = Balancer::for_loops(&wakers).unwrap().into_iter();
    (balancers.next().unwrap(), balancers.next().unwrap())
}

/// Returns `true` if we can transfer a duplicate of `socket`.
fn transfers_duplicate(from: &Balancer, socket: &UnixStream, tag: u32) -> bool {
    let socket = socket.try_clone().unwrap();
    from.transfer(Accepted { socket, peer: None }, tag).is_none()
}

#[test]
fn connection_moves_to_the_lighter_loop_and_works() {
    let (heavy, light) = two_balancers();
    let (mut client, socket) = UnixStream::pair().unwrap();
    heavy.set_load(2);
    assert!(heavy.transfer(Accepted { socket, peer: None }, 7).is_none());
    let (tag, received) = light.next_transferred().unwrap();
    assert_eq!(tag, 7);
    UnixStream::from(received).write_all(b"here").unwrap();
    let mut read = String::new();
    client.read_to_string(&mut read).unwrap();
    assert_eq!(read, "here");
    assert!(light.next_transferred().is_none());
}

#[test]
fn loop_that_left_receives_only_what_was_queued() {
    let (one, other) = two_balancers();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_load(9);
    assert!(transfers_duplicate(&one, &socket, 7));
    other.leave();
    other.set_load(0);
    assert!(!transfers_duplicate(&one, &socket, 7));
    // Another loop might have read the load earlier. If so, the kernel will refuse the transfer.
    assert!(send(&one.loops[other.own].sender, socket.as_fd(), 7).is_err());
    assert_eq!(other.next_transferred().map(|(tag, _)| tag), Some(7));
    assert!(other.next_transferred().is_none());
    // After that, it does not transfer the connections it accepts.
    one.set_load(0);
    assert!(!transfers_duplicate(&other, &socket, 7));
}

#[test]
fn small_imbalance_is_tolerated() {
    let (one, other) = two_balancers();
    let (_client, socket) = UnixStream::pair().unwrap();
    let few = [(0, 0, false), (1, 0, true), (3, 3, false), (4, 3, true), (5, 4, false), (6, 4, true)];
    let many = [(1000, 890, false), (1100, 890, true)];
    for (load, other_load, is_transferred) in few.into_iter().chain(many) {
        one.set_load(load);
        other.set_load(other_load);
        assert_eq!(transfers_duplicate(&one, &socket, 0), is_transferred, "{load} and {other_load}");
        while other.next_transferred().is_some() {}
    }
}

#[test]
fn lost_connection_is_no_longer_counted() {
    let (one, other) = two_balancers();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_load(9);
    // The kernel delivers such a message if the receiver does not have any descriptors left.
    one.loops[other.own].queued.fetch_add(1, Ordering::Relaxed);
    one.loops[other.own].sender.send(&7u32.to_ne_bytes()).unwrap();
    assert!(transfers_duplicate(&one, &socket, 8));
    assert_eq!(other.next_transferred().map(|(tag, _)| tag), Some(8));
    assert_eq!(one.loops[other.own].total(), 0);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has SOCK_SEQPACKET for local sockets everywhere")]
fn address_of_a_message_is_ignored() {
    let directory = temporary_directory();
    let outside = UnixDatagram::bind(directory.join("outside")).unwrap();
    outside.set_nonblocking(true).unwrap();
    let (one, other) = two_balancers();
    let address = rustix::net::SocketAddrUnix::new(directory.join("outside")).unwrap();
    let message = [IoSlice::new(b"none")];
    let sender = &one.loops[other.own].sender;
    let mut no_ancillary = SendAncillaryBuffer::default();
    rustix::net::sendmsg_addr(sender, &address, &message, &mut no_ancillary, SendFlags::NOSIGNAL).unwrap();
    assert!(outside.recv(&mut [0; 8]).is_err());
    std::fs::remove_dir_all(directory).unwrap();
}

fn temporary_directory() -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("cannery-balance-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn queued_connections_count_as_load() {
    let (one, other) = two_balancers();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_load(4);
    let transferred = (0..10).filter(|_| transfers_duplicate(&one, &socket, 0)).count();
    assert_eq!(transferred, 4);
    assert!(other.next_transferred().is_some());
}
