//! All loops over the kernel should behave the same way. To check this, we run each of these tests on all of them.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::address::Address;
use crate::listener::{Claim, Listener};
use crate::{Accepted, Event, EventLoop, Readiness, Received, Socket, SplicePipe, Token, Waker};

/// Runs each test on each loop, skipping rings if the kernel does not allow them.
macro_rules! test_on_each_loop {
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
                    Err(error) => println!("skipped: this kernel grants no ring: {error}"),
                }
            })*
        }
    };
}

mod datagrams;
mod echo;

test_on_each_loop! {
    connection_works_from_accept_to_close => accept_to_close;
    several_messages_are_received => several_messages;
    connection_is_accepted_without_peer_address => without_peer_address;
    reset_on_close_resets_the_connection => reset_on_close;
    wake_ups_are_merged => wake_up;
    wake_up_reaches_a_thread_with_its_own_descriptors => unshared_descriptors;
    unread_data_is_kept => unread_data;
    kept_data_is_freed_on_close => kept_until_closed;
    more_data_arrives_than_there_are_buffers => more_than_buffers;
    full_socket_becomes_writable => writable;
    zero_copy_send_keeps_order => zero_copy;
    runs_before_a_zero_copy_body_may_change => changed_runs;
    events_of_a_slot_name_its_current_owner => earlier_owner;
    pending_connections_survive_listener_removal => removed_listener;
    events_survive_listener_removal => data_before_removal;
    listeners_that_another_process_has_shut_down_are_removed => shut_down_listeners;
    more_connections_than_any_queue_holds_are_accepted => many;
    connections_are_accepted_after_a_full_queue_was_emptied => emptied_queue;
}

/// Returns the next event. If there is none, the test fails.
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

/// Runs a test with a deadline. Without this, a failing test might wait forever.
fn within_deadline(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let thread = std::thread::spawn(move || {
        test();
        // If the receiver is gone, the deadline is over.
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(30)) {
        Err(RecvTimeoutError::Timeout) => panic!("the loop waits for nothing"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().unwrap(),
    }
}

/// Opens a listener with the number 3 and watches it. Also returns its address.
fn listen(events: &mut impl EventLoop<Listener = Listener>) -> (Listener, SocketAddr) {
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("a local address for a TCP claim") };
    let listener = claim.listen().unwrap();
    events.add_listener(&listener, 3).unwrap();
    (listener, address)
}

/// Accepts the next connection.
fn accept<L: EventLoop<Listener = Listener>>(events: &mut L, listener: &Listener) -> Accepted<L::Socket> {
    loop {
        if let Some(accepted) = events.accept(listener).unwrap() {
            return accepted;
        }
        next(events);
    }
}

/// Connects a client. Watches the connection with `token`.
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

fn accept_to_close<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
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
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::WouldBlock);
    client.write_all(b"ping").unwrap();
    assert!(!await_readable(&mut events, TOKEN).read_closed);
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(4));
    assert_eq!(&buffer[..4], b"ping");

    assert_eq!(socket.send_vectored(&[IoSlice::new(b"po"), IoSlice::new(b"ng")]).unwrap(), 4);
    assert_eq!(socket.send(b"!").unwrap(), 1);
    socket.shutdown_write().unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert_eq!(response, "pong!");

    drop(client);
    while !await_readable(&mut events, TOKEN).read_closed {}
    assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Closed);
}

fn several_messages<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let mut buffer = [0; 16];

    for message in [b"first".as_slice(), b"second", b"third"] {
        client.write_all(message).unwrap();
        assert!(!await_readable(&mut events, TOKEN).read_closed);
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(message.len()));
        assert_eq!(&buffer[..message.len()], message);
    }

    client.write_all(b"last").unwrap();
    drop(client);

    let mut received = 0;
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Bytes(bytes) => received += bytes,
            Received::WouldBlock => drop(await_readable(&mut events, TOKEN)),
            Received::Closed => break,
        }
    }
    assert_eq!(received, 4);
}

fn without_peer_address<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    for needed in [false, true] {
        events.set_peer_addresses_needed(needed);
        let client = TcpStream::connect(address).unwrap();
        let accepted = accept(&mut events, &listener);
        let address = client.local_addr().unwrap();
        assert!(accepted.peer == Some(address) || !needed && accepted.peer.is_none(), "{:?}", accepted.peer);
    }
}

fn reset_on_close<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    for (generation, is_reset) in [(1, false), (2, true)] {
        let token = Token { slot: 0, generation };
        let (mut client, socket) = connect(&mut events, &listener, address, token);
        if is_reset {
            socket.reset_on_close().unwrap();
        }
        drop(socket);
        events.wait(Some(Duration::ZERO)).unwrap();
        let end = client.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(end, if is_reset { Err(io::ErrorKind::ConnectionReset) } else { Ok(0) });
    }
}

fn wake_up<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let waker = Waker::new().unwrap();
    let mut events = make(waker.clone());
    let thread = std::thread::spawn(move || (0..3).for_each(|_| waker.wake()));
    thread.join().unwrap();
    assert_eq!(next(&mut events), Event::Woken);
    events.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(events.next_event(), None);
}

fn unshared_descriptors<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L + Send + Sync) {
    let waker = Waker::new().unwrap();
    let loop_waker = waker.clone();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            match crate::unshare_descriptor_table([loop_waker.as_fd()].into_iter()) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                result => result.unwrap(),
            }
            next(&mut make(loop_waker.clone()))
        });
        waker.wake();
        assert_eq!(thread.join().unwrap(), Event::Woken);
    });
}

fn unread_data<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);

    // This should be more than the loop's buffer can take, but less than the kernel's buffers.
    let sent: Vec<u8> = (0..100_000u32).map(|number| number.to_le_bytes()[0]).collect();
    client.write_all(&sent[..50_000]).unwrap();
    await_readable(&mut events, TOKEN);

    // The loop goes on, and the event is ignored.
    for _ in 0..20 {
        events.wait(Some(Duration::from_millis(1))).unwrap();
        while events.next_event().is_some() {}
    }

    let kept = events.kept_bytes();
    assert_eq!(socket.kept_bytes(), kept);
    client.write_all(&sent[50_000..]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();

    let mut received = Vec::new();
    let mut buffer = [0; 777];
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Bytes(bytes) => received.extend_from_slice(&buffer[..bytes]),
            Received::WouldBlock => drop(await_readable(&mut events, TOKEN)),
            Received::Closed => break,
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

fn more_than_buffers<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    const CLIENTS: usize = 200;
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for client in &mut clients {
        client.write_all(&[7; 1500]).unwrap();
    }

    let sockets: Vec<_> = clients.iter().map(|_| accept(&mut events, &listener).socket).collect();
    // All of them already have data before we wait for the first time.
    for (slot, socket) in (0..).zip(&sockets) {
        events.add_socket(socket, Token { slot, generation: 1 }).unwrap();
    }

    let mut buffer = [0; 2000];
    let mut left = CLIENTS * 1500;
    while left > 0 {
        let Event::Ready(Token { slot, .. }, _) = next(&mut events) else { continue };
        while let Received::Bytes(bytes) = sockets[slot as usize].receive(&mut buffer).unwrap() {
            assert!(buffer[..bytes].iter().all(|byte| *byte == 7));
            left -= bytes;
        }
    }
}

fn writable<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
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

fn zero_copy<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);

    let pipe = SplicePipe::new();
    // This starts and ends in the middle of a page, and all pages are different.
    let bytes: Vec<u8> = (0..8_000_001u32).map(|number| (number % 251) as u8).collect();
    let body = &bytes[77..];
    let runs = [IoSlice::new(b"he"), IoSlice::new(b"ads")];

    let mut sent = socket.send_zero_copy(&runs, body, &pipe).unwrap() - 5;
    assert!(sent > 0 && sent < body.len(), "no socket has room for {sent} bytes at once");
    assert!(pipe.is_empty(), "bytes without room in the socket are dropped");

    let expected = [b"heads", body].concat();
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; expected.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == expected);
    });

    while sent < body.len() {
        let more = socket.send_zero_copy(&[], &body[sent..], &pipe).unwrap();
        if more == 0 {
            events.wait(Some(Duration::from_secs(10))).unwrap();
            while events.next_event().is_some() {}
        }
        sent += more;
    }

    reader.join().unwrap();
}

fn changed_runs<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let (listener, address) = listen(&mut events);
    let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
    let pipe = SplicePipe::new();

    let bytes: Vec<u8> = (0..80_000u32).map(|number| (number % 251) as u8).collect();
    let mut expected = Vec::new();

    // Runs have all kinds of lengths (some are longer than a page), and bodies can start anywhere in a page. The client only reads
    // later.
    for (round, letter) in (0..).step_by(611).zip((0..250).cycle()) {
        let body = &bytes[round % 4096..][..[9_000, 70_000][round % 2]];
        let mut runs = vec![letter; 1 + round % 5000];
        let (first, second) = runs.split_at(runs.len() / 2);
        let sent = socket.send_zero_copy(&[IoSlice::new(first), IoSlice::new(second)], body, &pipe).unwrap();
        let whole = [&runs, body].concat();
        runs.fill(255);
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
    events.close_listener(listener);
    assert!(TcpStream::connect(address).is_err());
}

fn data_before_removal<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L + Send + 'static) {
    within_deadline(move || {
        let mut events = make(Waker::new().unwrap());
        let (listener, address) = listen(&mut events);
        let (mut client, socket) = connect(&mut events, &listener, address, TOKEN);
        client.write_all(b"data").unwrap();
        // While a ring waits for the end of its operation, it also receives the data.
        events.remove_listener(&listener).unwrap();
        loop {
            events.wait(None).unwrap();
            match events.next_event() {
                Some(Event::Ready(TOKEN, readiness)) if readiness.readable => break,
                _ => {}
            }
        }
        assert_eq!(socket.receive(&mut [0; 16]).unwrap(), Received::Bytes(4));
    });
}

fn shut_down_listeners<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L + Send + 'static) {
    within_deadline(move || {
        let mut events = make(Waker::new().unwrap());
        let listeners = [3, 4].map(|number| {
            let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            let listener = claim.listen().unwrap();
            events.add_listener(&listener, number).unwrap();
            listener
        });
        events.wait(Some(Duration::ZERO)).unwrap();
        for listener in &listeners {
            socket2::SockRef::from(listener).shutdown(Shutdown::Read).unwrap();
        }
        // When a ring removes the first operation, it receives the ends of both.
        for listener in &listeners {
            events.remove_listener(listener).unwrap();
        }
    });
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

/// Regression test: a ring used to stop accepting for good if the worker emptied the full queue before the kernel had processed the
/// cancellation.
fn emptied_queue<L: EventLoop<Listener = Listener>>(make: impl Fn(Waker) -> L + Send + 'static) {
    // This many fit into a ring's queue.
    const CLIENTS: usize = 256;
    within_deadline(move || {
        let mut events = make(Waker::new().unwrap());
        let (listener, address) = listen(&mut events);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        // A ring returns an event for each client and then stops accepting, while other loops only return a single event.
        let mut acceptable = 0;
        for _ in 0..100 {
            events.wait(Some(Duration::ZERO)).unwrap();
            acceptable += std::iter::from_fn(|| events.next_event()).count();
            if acceptable == CLIENTS {
                break;
            }
        }
        let accepted: Vec<_> = std::iter::from_fn(|| events.accept(&listener).unwrap()).collect();
        assert_eq!(accepted.len(), CLIENTS);

        clients.push(TcpStream::connect(address).unwrap());
        drop(accept(&mut events, &listener));
    });
}

#[test]
fn address_in_use_is_refused() {
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = claim.address();
    let _workers = [claim.listen().unwrap(), claim.listen().unwrap()];
    let error = Claim::new(&address).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
