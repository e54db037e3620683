//! The loops over the kernel cannot be told apart: each test runs on all of them.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::address::Address;
use crate::listener::{Claim, Listener};
use crate::{Accepted, Event, EventLoop, PagePipe, Readiness, Received, Socket, Token, Waker};

/// Runs a test on each loop; on a ring only where the kernel has one.
macro_rules! on_each {
    ($($name:ident => $test:ident;)*) => {
        #[cfg(all(target_os = "linux", not(feature = "portable")))]
        mod epoll {
            use super::*;
            use crate::Epoll;
            $(#[test] fn $name() { $test(|waker| Epoll::new(waker, None).unwrap()); })*
        }
        #[cfg(any(feature = "portable", not(target_os = "linux")))]
        mod portable {
            use super::*;
            use crate::Portable;
            $(#[test] fn $name() { $test(|waker| Portable::new(waker, None).unwrap()); })*
        }
        #[cfg(all(target_os = "linux", not(feature = "portable")))]
        mod uring {
            use super::*;
            use crate::Uring;
            $(#[test] fn $name() {
                match Uring::probe() {
                    Ok(()) => $test(|waker| Uring::new(waker, None).unwrap()),
                    Err(error) => println!("skipped: this kernel gives no ring: {error}"),
                }
            })*
        }
    };
}

on_each! {
    a_connection_goes_from_accept_to_end => accept_to_end;
    a_connection_is_received_for_again_and_again => again_and_again;
    a_peer_that_nobody_wants_to_know_is_accepted_all_the_same => unnamed;
    a_socket_that_is_abandoned_ends_with_a_reset => abandoned;
    a_knock_wakes_once => knock;
    a_knock_reaches_a_thread_with_descriptors_of_its_own => own_descriptors;
    what_a_connection_does_not_read_waits_for_it => not_read;
    what_is_kept_for_a_connection_ends_with_it => kept_until_closed;
    more_may_come_at_once_than_there_are_buffers_for => many_at_once;
    a_full_socket_tells_when_there_is_room => room;
    pages_are_lent_in_order_and_as_far_as_there_is_room => lent_pages;
    what_is_sent_before_lent_pages_may_change_at_once => changed_front;
    an_event_of_an_earlier_owner_of_a_slot_is_never_told => earlier_owner;
    who_came_before_a_listener_was_removed_may_still_be_accepted => removed_listener;
    more_connections_than_wait_in_any_queue_are_accepted => many;
}

/// The next event; fails the test if none comes.
fn next(events: &mut impl EventLoop) -> Event {
    for _ in 0..100 {
        if let Some(event) = events.next_event() {
            return event;
        }
        events.wait(Some(Duration::from_secs(10))).unwrap();
    }
    panic!("nothing happened");
}

fn await_readable(events: &mut impl EventLoop, token: Token) -> Readiness {
    loop {
        match next(events) {
            Event::Ready(ready, readiness) if ready == token && readiness.readable => return readiness,
            _ => {}
        }
    }
}

/// A listener, watched under number 3, and where it is.
fn listen(events: &mut impl EventLoop<Listener = Listener>) -> (Listener, SocketAddr) {
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("not what was claimed") };
    let listener = claim.listen().unwrap();
    events.add_listener(&listener, 3).unwrap();
    (listener, address)
}

/// The next connection.
fn accept<L: EventLoop<Listener = Listener>>(events: &mut L, listener: &Listener) -> Accepted<L::Socket> {
    loop {
        if let Some(accepted) = events.accept(listener).unwrap() {
            return accepted;
        }
        next(events);
    }
}

/// A connection of a client, watched with this token.
fn connect<L: EventLoop<Listener = Listener>>(
    events: &mut L,
    listener: &Listener,
    address: SocketAddr,
    token: Token,
) -> (TcpStream, L::Socket) {
    let client = TcpStream::connect(address).unwrap();
    let accepted = accept(events, listener);
    assert_eq!(accepted.peer, Some(client.local_addr().unwrap()));
    events.add_socket(&accepted.socket, token).unwrap();
    (client, accepted.socket)
}

const TOKEN: Token = Token { slot: 5, generation: 9 };

fn accept_to_end<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let mut client = TcpStream::connect(address).unwrap();
    assert_eq!(next(&mut events), Event::Acceptable(3));
    let accepted = events.accept(&listener).unwrap().unwrap();
    assert_eq!(accepted.peer, Some(client.local_addr().unwrap()));
    let socket = accepted.socket;
    assert!(events.accept(&listener).unwrap().is_none());
    events.add_socket(&socket, TOKEN).unwrap();

    let mut buffer = [0; 16];
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::NotYet);
    client.write_all(b"ping").unwrap();
    assert!(!await_readable(&mut events, TOKEN).ended);
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(4));
    assert_eq!(&buffer[..4], b"ping");

    assert_eq!(socket.send_runs(&[IoSlice::new(b"po"), IoSlice::new(b"ng")]).unwrap(), 4);
    assert_eq!(socket.send(b"!").unwrap(), 1);
    socket.end_sending().unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "pong!");

    drop(client);
    while !await_readable(&mut events, TOKEN).ended {}
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::End);
}

fn again_and_again<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let mut buffer = [0; 16];
    for asked in [b"first".as_slice(), b"second", b"third"] {
        client.write_all(asked).unwrap();
        assert!(!await_readable(&mut events, TOKEN).ended);
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(asked.len()));
        assert_eq!(&buffer[..asked.len()], asked);
    }
    client.write_all(b"last").unwrap();
    drop(client);
    let mut received = 0;
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Bytes(bytes) => received += bytes,
            Received::NotYet => drop(await_readable(&mut events, TOKEN)),
            Received::End => break,
        }
    }
    assert_eq!(received, 4);
}

fn unnamed<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    for wanted in [false, true] {
        events.name_peers(wanted);
        let client = TcpStream::connect(address).unwrap();
        let accepted = accept(&mut events, &listener);
        let named = client.local_addr().unwrap();
        assert!(accepted.peer == Some(named) || !wanted && accepted.peer.is_none(), "{:?}", accepted.peer);
    }
}

fn abandoned<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    for (generation, abandoned) in [(1, false), (2, true)] {
        let token = Token { slot: 0, generation };
        let (mut client, socket) = connect(&mut events, &listener, address, token);
        if abandoned {
            socket.abandon().unwrap();
        }
        drop(socket);
        events.wait(Some(Duration::ZERO)).unwrap();
        let end = client.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(end, if abandoned { Err(io::ErrorKind::ConnectionReset) } else { Ok(0) });
    }
}

fn knock<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let waker = Waker::new().unwrap();
    let mut events = make(waker.clone());
    let knocks = std::thread::spawn(move || (0..3).for_each(|_| waker.wake()));
    knocks.join().unwrap();
    assert_eq!(next(&mut events), Event::Woken);
    events.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(events.next_event(), None);
}

fn own_descriptors<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L + Send + Sync) {
    let waker = Waker::new().unwrap();
    let of_loop = waker.clone();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            match crate::own_descriptors([of_loop.as_fd()].into_iter()) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                done => done.unwrap(),
            }
            next(&mut make(of_loop.clone()))
        });
        waker.wake();
        assert_eq!(thread.join().unwrap(), Event::Woken);
    });
}

fn not_read<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    // Larger than any buffer of the loop, and less than the kernel keeps.
    let sent: Vec<u8> = (0..100_000u32).map(|number| number.to_le_bytes()[0]).collect();
    client.write_all(&sent[..50_000]).unwrap();
    await_readable(&mut events, TOKEN);
    // The event is left alone, and others come meanwhile.
    for _ in 0..20 {
        events.wait(Some(Duration::from_millis(1))).unwrap();
        while events.next_event().is_some() {}
    }
    let kept = events.kept_bytes();
    assert_eq!(socket.kept_bytes(), kept);
    client.write_all(&sent[50_000..]).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 777]);
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Bytes(bytes) => received.extend_from_slice(&buffer[..bytes]),
            Received::NotYet => drop(await_readable(&mut events, TOKEN)),
            Received::End => break,
        }
    }
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    assert_eq!(events.kept_bytes(), 0);
}

fn kept_until_closed<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    client.write_all(&[7; 10_000]).unwrap();
    await_readable(&mut events, TOKEN);
    events.wait(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(events.kept_bytes(), socket.kept_bytes());
    drop(socket);
    while events.next_event().is_some() {}
    assert_eq!(events.kept_bytes(), 0);
}

fn many_at_once<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    const CLIENTS: usize = 200;
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    clients.iter_mut().for_each(|client| client.write_all(&[7; 1500]).unwrap());
    let sockets: Vec<_> = clients.iter().map(|_| accept(&mut events, &listener).socket).collect();
    // All of them have something to receive before the first one is waited for.
    for (slot, socket) in (0..).zip(&sockets) {
        events.add_socket(socket, Token { slot, generation: 1 }).unwrap();
    }
    let (mut buffer, mut left) = ([0; 2000], CLIENTS * 1500);
    while left > 0 {
        let Event::Ready(Token { slot, .. }, _) = next(&mut events) else { continue };
        while let Received::Bytes(bytes) = sockets[slot as usize].receive(&mut buffer).unwrap() {
            assert!(buffer[..bytes].iter().all(|byte| *byte == 7));
            left -= bytes;
        }
    }
}

fn room<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let bytes = vec![7; 1 << 20];
    let mut sent = 0;
    loop {
        match socket.send(&bytes).unwrap() {
            0 => break,
            more => sent += more,
        }
    }
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; sent];
        client.read_exact(&mut received).unwrap();
        client
    });
    loop {
        match next(&mut events) {
            Event::Ready(TOKEN, readiness) if readiness.writable => break,
            _ => {}
        }
    }
    assert!(socket.send(b"more").unwrap() > 0);
    drop(reader.join().unwrap());
}

fn lent_pages<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let pipe = PagePipe::new();
    // Not at the beginning of a page, nor of a length that ends with one, and no two pages alike.
    let bytes: Vec<u8> = (0..8_000_001u32).map(|number| (number % 251) as u8).collect();
    let pages = &bytes[77..];
    let front = [IoSlice::new(b"fro"), IoSlice::new(b"nt")];
    let mut sent = socket.send_pages(&front, pages, &pipe).unwrap() - 5;
    assert!(sent > 0 && sent < pages.len(), "no socket has room for {sent} bytes at once");
    assert!(pipe.is_empty(), "what there was no room for is in nobody's way");
    let expected = [b"front", pages].concat();
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; expected.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == expected);
    });
    while sent < pages.len() {
        let more = socket.send_pages(&[], &pages[sent..], &pipe).unwrap();
        if more == 0 {
            events.wait(Some(Duration::from_secs(10))).unwrap();
            while events.next_event().is_some() {}
        }
        sent += more;
    }
    reader.join().unwrap();
}

fn changed_front<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let pipe = PagePipe::new();
    let bytes: Vec<u8> = (0..80_000u32).map(|number| (number % 251) as u8).collect();
    let mut expected = Vec::new();
    // Heads of all lengths, some longer than a page, and bodies that begin anywhere in one: nobody reads meanwhile.
    for (round, letter) in (0..).step_by(611).zip((0..250).cycle()) {
        let pages = &bytes[round % 4096..][..[9_000, 70_000][round % 2]];
        let mut front = vec![letter; 1 + round % 5000];
        let (first, second) = front.split_at(front.len() / 2);
        let sent = socket.send_pages(&[IoSlice::new(first), IoSlice::new(second)], pages, &pipe).unwrap();
        let whole = [&front, pages].concat();
        front.fill(255);
        expected.extend_from_slice(&whole[..sent]);
        if sent < whole.len() {
            break;
        }
    }
    drop(socket);
    events.wait(Some(Duration::ZERO)).unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == expected, "{} bytes of {}", received.len(), expected.len());
}

fn earlier_owner<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut first, socket) = connect(&mut events, &listener, address, TOKEN);
    first.write_all(b"first").unwrap();
    events.wait(Some(Duration::from_secs(10))).unwrap();
    drop(socket);
    let token = Token { generation: TOKEN.generation + 1, ..TOKEN };
    let (mut second, socket) = connect(&mut events, &listener, address, token);
    second.write_all(b"second").unwrap();
    loop {
        match next(&mut events) {
            Event::Ready(ready, readiness) if ready == token && readiness.readable => break,
            Event::Ready(ready, _) => assert_eq!(ready.slot, TOKEN.slot),
            _ => {}
        }
    }
    let mut buffer = [0; 16];
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(6));
    assert_eq!(&buffer[..6], b"second");
}

fn removed_listener<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let _clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    events.remove_listener(&listener).unwrap();
    let accepted = std::iter::from_fn(|| events.accept(&listener).unwrap()).count();
    assert_eq!(accepted, 20);
    events.end_listening(listener);
    assert!(TcpStream::connect(address).is_err());
}

fn many<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    const CLIENTS: usize = 700;
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let clients = std::thread::spawn(move || {
        (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
    });
    let mut accepted = Vec::new();
    while accepted.len() < CLIENTS {
        match events.accept(&listener).unwrap() {
            Some(connection) => accepted.push(connection.socket),
            None => drop(next(&mut events)),
        }
    }
    assert_eq!(clients.join().unwrap().len(), CLIENTS);
    assert!(events.accept(&listener).unwrap().is_none());
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = claim.address();
    let _workers = [claim.listen().unwrap(), claim.listen().unwrap()];
    let error = Claim::new(&address).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
