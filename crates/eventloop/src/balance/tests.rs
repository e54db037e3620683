//! Unit tests of load balancing.

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn two() -> (Neighbours, Neighbours) {
    let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
    let mut places = Neighbours::of(&wakers).unwrap().into_iter();
    (places.next().unwrap(), places.next().unwrap())
}

#[test]
fn a_connection_goes_to_whom_has_fewer_and_works_there() {
    let (heavy, light) = two();
    let (mut client, socket) = UnixStream::pair().unwrap();
    heavy.set_held(2);
    assert!(heavy.hand_over(socket.as_fd(), 7));
    drop(socket);
    let (listener, taken) = light.take_over().unwrap();
    assert_eq!(listener, 7);
    UnixStream::from(taken).write_all(b"here").unwrap();
    let mut read = String::new();
    client.read_to_string(&mut read).unwrap();
    assert_eq!(read, "here");
    assert!(light.take_over().is_none());
}

#[test]
fn who_leaves_takes_what_it_was_handed_and_nothing_more() {
    let (one, other) = two();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_held(9);
    assert!(one.hand_over(socket.as_fd(), 7));
    other.leave();
    other.set_held(0);
    assert!(!one.hand_over(socket.as_fd(), 7));
    // Also where somebody has not seen yet that it has left.
    assert!(send(&one.members[other.own].to, socket.as_fd(), 7).is_err());
    assert_eq!(other.take_over().map(|(listener, _)| listener), Some(7));
    assert!(other.take_over().is_none());
    // Nor does it hand on what it still accepts.
    one.set_held(0);
    assert!(!other.hand_over(socket.as_fd(), 7));
}

#[test]
fn what_is_even_enough_stays() {
    let (one, other) = two();
    let (_client, socket) = UnixStream::pair().unwrap();
    let few = [(0, 0, false), (1, 0, true), (3, 3, false), (4, 3, true), (5, 4, false), (6, 4, true)];
    let many = [(1000, 890, false), (1100, 890, true)];
    for (held, of_other, goes) in few.into_iter().chain(many) {
        one.set_held(held);
        other.set_held(of_other);
        assert_eq!(one.hand_over(socket.as_fd(), 0), goes, "{held} and {of_other}");
        while other.take_over().is_some() {}
    }
}

#[test]
fn a_connection_without_its_descriptor_is_no_longer_counted() {
    let (one, other) = two();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_held(9);
    // As the kernel delivers it if the receiver may open no more.
    one.members[other.own].coming.fetch_add(1, Ordering::Relaxed);
    one.members[other.own].to.send(&7u32.to_ne_bytes()).unwrap();
    assert!(one.hand_over(socket.as_fd(), 8));
    assert_eq!(other.take_over().map(|(listener, _)| listener), Some(8));
    assert_eq!(one.members[other.own].load(), 0);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has such sockets everywhere")]
fn an_address_on_a_message_is_ignored() {
    let folder = memory_folder();
    let outside = UnixDatagram::bind(folder.join("outside")).unwrap();
    outside.set_nonblocking(true).unwrap();
    let (one, other) = two();
    let address = rustix::net::SocketAddrUnix::new(folder.join("outside")).unwrap();
    let message = [IoSlice::new(b"none")];
    let to = &one.members[other.own].to;
    let mut nothing = SendAncillaryBuffer::default();
    rustix::net::sendmsg_addr(to, &address, &message, &mut nothing, SendFlags::NOSIGNAL).unwrap();
    assert!(outside.recv(&mut [0; 8]).is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

fn memory_folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("cannery-neighbours-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn what_is_on_its_way_counts() {
    let (one, other) = two();
    let (_client, socket) = UnixStream::pair().unwrap();
    one.set_held(4);
    let handed = (0..10).filter(|_| one.hand_over(socket.as_fd(), 0)).count();
    assert_eq!(handed, 4);
    assert!(other.take_over().is_some());
}
