//! Tests for datagrams, run on all loops over the kernel. The peers are sockets from the standard library.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as Peer};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::next;
use crate::address::Address;
use crate::{
    Backlog, DatagramClaim, DatagramOptions, DatagramSocket, Ecn, Event, EventLoop, Progress, ReceiveBatch,
    SegmentBatch, SendOutcome, UdpSocket, Waker, WorkerRouting,
};

test_on_each_loop! {
    datagrams_are_received_and_answered => receive_and_answer;
    datagrams_that_arrived_before_the_socket_was_watched_are_reported => arrived_before;
    batch_is_split_into_datagrams => split_batch;
    several_batches_are_sent_in_order => several_batches;
    merged_datagrams_are_split => merged_datagrams;
    more_datagrams_than_a_batch_holds_are_received => more_than_a_batch;
    ecn_codepoints_are_sent_and_received => ecn;
    ecn_codepoints_pass_from_ipv4_to_a_socket_of_both_versions => ecn_of_both_versions;
    answer_comes_from_the_requested_address => source_address;
    datagram_beyond_the_limit_is_lost => too_long;
    room_is_reported_once_on_request => room;
    removed_socket_has_no_events => removed;
}

const NUMBER: u32 = 7;

fn options() -> DatagramOptions {
    DatagramOptions::default()
}

/// Opens a socket. The system chooses a free port.
fn open(ip: impl Into<IpAddr>) -> UdpSocket {
    let claim = DatagramClaim::new(&SocketAddr::new(ip.into(), 0).into(), options()).unwrap();
    claim.open(1).unwrap().remove(0)
}

fn peer() -> Peer {
    let peer = Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    peer
}

/// A received datagram. It has its own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrival {
    source: SocketAddr,
    destination: Option<IpAddr>,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

/// Receives this many datagrams. It waits for events like a worker does.
fn receive(
    events: &mut impl EventLoop<Datagrams = UdpSocket>,
    socket: &UdpSocket,
    batch: &mut ReceiveBatch,
    count: usize,
) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    loop {
        let backlog = socket.receive(batch).unwrap();
        arrivals.extend(batch.datagrams().map(|datagram| Arrival {
            source: datagram.source,
            destination: datagram.destination,
            ecn: datagram.ecn,
            bytes: datagram.bytes.to_vec(),
        }));
        if arrivals.len() >= count {
            assert_eq!(arrivals.len(), count);
            return arrivals;
        }
        if backlog == Backlog::Empty {
            assert_eq!(next(events), Event::Datagrams(NUMBER));
        }
    }
}

/// Waits until datagrams have arrived, without using an event loop. The kernel may need some time to deliver them.
fn await_arrival(socket: &UdpSocket) {
    let mut sockets = [PollFd::new(socket, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut sockets, Some(&timeout)).unwrap(), 1, "no datagram");
}

fn no_event(events: &mut impl EventLoop) {
    events.wait(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(events.next_event(), None);
}

fn segment_batch(destination: SocketAddr, bytes: &[u8]) -> SegmentBatch<'_> {
    SegmentBatch { destination, source: None, ecn: None, bytes, segment_bytes: None }
}

fn numbered(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

fn receive_and_answer<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let mut batch = ReceiveBatch::new();
    let socket = open(Ipv4Addr::LOCALHOST);
    events.add_datagrams(&socket, NUMBER).unwrap();
    no_event(&mut events);
    let peer = peer();
    for request in [b"first".as_slice(), b"second", b"third"] {
        peer.send_to(request, socket.local_address()).unwrap();
        assert_eq!(next(&mut events), Event::Datagrams(NUMBER));
        assert_eq!(socket.receive(&mut batch).unwrap(), Backlog::Empty);
        let datagrams: Vec<_> = batch.datagrams().collect();
        assert_eq!(datagrams.len(), 1);
        assert_eq!(datagrams[0].bytes, request);
        assert_eq!(datagrams[0].source, peer.local_addr().unwrap());
        assert_eq!(datagrams[0].destination, Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(datagrams[0].ecn, None);

        assert_eq!(socket.send(&segment_batch(datagrams[0].source, b"answer")), SendOutcome::Sent);
        let mut buffer = [0; 100];
        assert_eq!(peer.recv_from(&mut buffer).unwrap(), (6, socket.local_address()));
        assert_eq!(&buffer[..6], b"answer");
    }
    assert_eq!(socket.receive(&mut batch).unwrap(), Backlog::Empty);
    assert_eq!(batch.datagrams().count(), 0);
    assert_eq!(socket.discarded(), 0);
}

fn arrived_before<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let socket = open(Ipv4Addr::LOCALHOST);
    peer().send_to(b"early", socket.local_address()).unwrap();
    events.add_datagrams(&socket, NUMBER).unwrap();
    assert_eq!(next(&mut events), Event::Datagrams(NUMBER));
}

fn split_batch<L: EventLoop<Datagrams = UdpSocket>>(_: impl Fn(Waker) -> L) {
    let socket = open(Ipv4Addr::LOCALHOST);
    let peer = peer();
    // Try one datagram, several equal ones, a shorter one at the end, and more than a single call can send.
    for (length, segment_bytes) in
        [(1200, 1200), (1199, 1200), (2400, 1200), (5000, 1200), (80_000, 1452), (70, 1)]
    {
        let bytes = numbered(length);
        let segments = SegmentBatch {
            segment_bytes: Some(segment_bytes),
            ..segment_batch(peer.local_addr().unwrap(), &bytes)
        };
        assert_eq!(socket.send(&segments), SendOutcome::Sent);
        for expected in bytes.chunks(segment_bytes) {
            let mut buffer = [0; 2000];
            let received = peer.recv(&mut buffer).unwrap();
            assert!(&buffer[..received] == expected, "{length} bytes, {segment_bytes} each");
        }
    }
    assert!(socket.take_gso_error().is_none());
}

fn several_batches<L: EventLoop<Datagrams = UdpSocket>>(_: impl Fn(Waker) -> L) {
    let socket = open(Ipv4Addr::LOCALHOST);
    let [first, second] = [peer(), peer()];
    let [first_address, second_address] = [&first, &second].map(|peer| peer.local_addr().unwrap());
    let bytes = numbered(70_000);
    let single = |number: usize| segment_batch(first_address, &bytes[number..][..1200]);
    let split = |length| SegmentBatch {
        segment_bytes: Some(1000),
        ..segment_batch(second_address, &bytes[..length])
    };

    assert_eq!(socket.send_all(&[]), Progress::default());
    let mut batches: Vec<_> = (0..40).map(single).collect();
    batches[5] = split(2500);
    // The first one needs several calls, and the second one does not need any.
    batches[21] = split(66_000);
    batches[22] = split(0);
    // This is too long for a datagram.
    for index in [0, 9, 10, 39] {
        batches[index] = segment_batch(first_address, &bytes[..70_000]);
    }
    assert_eq!(socket.send_all(&batches), Progress { batches: 40, lost: 4, sent_bytes: 0 });

    let mut buffer = [0; 2000];
    for number in (0..40).filter(|number| ![0, 5, 9, 10, 21, 22, 39].contains(number)) {
        let received = first.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..received], bytes[number..][..1200]);
    }
    for expected in bytes[..2500].chunks(1000).chain(bytes[..66_000].chunks(1000)) {
        let received = second.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..received], expected);
    }
}

fn merged_datagrams<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let mut batch = ReceiveBatch::new();
    let [receiver, sender] = [open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST)];
    events.add_datagrams(&receiver, NUMBER).unwrap();
    for (length, segment_bytes) in [(1200, 1200), (3000, 1200), (3600, 1200), (64_000, 1300)] {
        let bytes = numbered(length);
        let segments = SegmentBatch {
            segment_bytes: Some(segment_bytes),
            ..segment_batch(receiver.local_address(), &bytes)
        };
        assert_eq!(sender.send(&segments), SendOutcome::Sent);
        let arrivals = receive(&mut events, &receiver, &mut batch, length.div_ceil(segment_bytes));
        for (arrival, expected) in arrivals.iter().zip(bytes.chunks(segment_bytes)) {
            assert_eq!(arrival.source, sender.local_address());
            assert!(arrival.bytes == expected, "{length} bytes, {segment_bytes} each");
        }
    }
}

fn more_than_a_batch<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let mut batch = ReceiveBatch::new();
    let socket = open(Ipv4Addr::LOCALHOST);
    events.add_datagrams(&socket, NUMBER).unwrap();
    let peers: Vec<_> = (0..50).map(|_| peer()).collect();
    for (number, peer) in (0..).zip(&peers) {
        peer.send_to(&[number; 30], socket.local_address()).unwrap();
    }
    let arrivals = receive(&mut events, &socket, &mut batch, peers.len());
    let sources: BTreeSet<_> = arrivals.iter().map(|arrival| arrival.source).collect();
    assert!(peers.iter().all(|peer| sources.contains(&peer.local_addr().unwrap())));
}

fn ecn<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
    if Peer::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        addresses.push(Ipv6Addr::LOCALHOST.into());
    }

    for address in addresses {
        let mut events = make(Waker::new().unwrap());
        let mut batch = ReceiveBatch::new();
        let [receiver, sender] = [open(address), open(address)];
        events.add_datagrams(&receiver, NUMBER).unwrap();
        for ecn in [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)] {
            // If datagrams are merged, they still have the codepoint.
            for segment_bytes in [None, Some(2)] {
                let segments =
                    SegmentBatch { ecn, segment_bytes, ..segment_batch(receiver.local_address(), b"four") };
                assert_eq!(sender.send(&segments), SendOutcome::Sent);
                let count = if segment_bytes.is_some() { 2 } else { 1 };
                for arrival in receive(&mut events, &receiver, &mut batch, count) {
                    assert_eq!((arrival.ecn, arrival.destination), (ecn, Some(address)));
                }
            }
        }
    }
}

fn ecn_of_both_versions<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let mut batch = ReceiveBatch::new();
    let both = DatagramClaim::new(&Address::Every(0), options()).unwrap().open(1).unwrap().remove(0);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, both.local_address().port()));
    events.add_datagrams(&both, NUMBER).unwrap();
    for ecn in [None, Some(Ecn::Ect0), Some(Ecn::Ce)] {
        let client = open(Ipv4Addr::LOCALHOST);
        let bytes = numbered(3000);
        let request = SegmentBatch { ecn, segment_bytes: Some(1000), ..segment_batch(address, &bytes) };
        assert_eq!(client.send(&request), SendOutcome::Sent);
        let arrivals = receive(&mut events, &both, &mut batch, 3);
        assert!(arrivals.iter().all(|arrival| arrival.ecn == ecn), "{arrivals:?}");

        let Arrival { source, destination, .. } = arrivals[0];
        let answer = SegmentBatch { source: destination, ecn, ..segment_batch(source, b"answer") };
        assert_eq!(both.send(&answer), SendOutcome::Sent);
        await_arrival(&client);
        assert_eq!(client.receive(&mut batch).unwrap(), Backlog::Empty);
        assert_eq!(batch.datagrams().count(), 1);
        assert!(batch.datagrams().all(|datagram| (datagram.source, datagram.ecn) == (address, ecn)));
    }
}

fn source_address<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    // Among the systems that we support, only Linux has more than one address on the loopback interface.
    let targets: &[[u8; 4]] =
        if cfg!(target_os = "linux") { &[[127, 0, 0, 1], [127, 0, 0, 2]] } else { &[[127, 0, 0, 1]] };
    for address in [Address::Every(0), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into()] {
        let mut events = make(Waker::new().unwrap());
        let mut batch = ReceiveBatch::new();
        let claim = DatagramClaim::new(&address, options()).unwrap();
        let socket = claim.open(1).unwrap().remove(0);
        events.add_datagrams(&socket, NUMBER).unwrap();
        let port = socket.local_address().port();
        assert_eq!(socket.address().port(), Some(port));
        for target in targets {
            let peer = peer();
            let target = SocketAddr::from((*target, port));
            peer.send_to(b"request", target).unwrap();
            let arrival = receive(&mut events, &socket, &mut batch, 1).remove(0);
            assert_eq!(arrival.source.ip().to_canonical(), peer.local_addr().unwrap().ip());
            assert_eq!(arrival.destination.unwrap().to_canonical(), target.ip());

            let bytes = numbered(2500);
            let segments = SegmentBatch {
                source: arrival.destination,
                ecn: Some(Ecn::Ect0),
                segment_bytes: Some(1200),
                ..segment_batch(arrival.source, &bytes)
            };
            assert_eq!(socket.send(&segments), SendOutcome::Sent);
            for expected in bytes.chunks(1200) {
                let mut buffer = [0; 2000];
                assert_eq!(peer.recv_from(&mut buffer).unwrap(), (expected.len(), target));
            }
        }
    }
}

fn too_long<L: EventLoop<Datagrams = UdpSocket>>(_: impl Fn(Waker) -> L) {
    let socket = open(Ipv4Addr::LOCALHOST);
    let peer = peer();
    let address = peer.local_addr().unwrap();
    assert_eq!(socket.send(&segment_batch(address, &[0; 65_536])), SendOutcome::Lost);
    // The remaining datagrams are still sent, and GSO stays enabled.
    let has_gso = socket.has_gso();
    let bytes = [1; 65_536 + 10];
    assert_eq!(
        socket.send(&SegmentBatch { segment_bytes: Some(65_536), ..segment_batch(address, &bytes) }),
        SendOutcome::Lost
    );
    assert_eq!(peer.recv(&mut [0; 100]).unwrap(), 10);
    assert_eq!(socket.has_gso(), has_gso);
}

fn room<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let socket = open(Ipv4Addr::LOCALHOST);
    let peer = peer();
    let segments = segment_batch(peer.local_addr().unwrap(), b"bytes");
    events.add_datagrams(&socket, NUMBER).unwrap();

    // Sending does not cause an event.
    for _ in 0..2 {
        assert_eq!(socket.send(&segments), SendOutcome::Sent);
        no_event(&mut events);
    }

    events.await_room(&socket, NUMBER).unwrap();
    events.await_room(&socket, NUMBER).unwrap();
    assert_eq!(next(&mut events), Event::Datagrams(NUMBER));
    no_event(&mut events);
    assert_eq!(socket.send(&segments), SendOutcome::Sent);
    if !cfg!(feature = "portable") {
        no_event(&mut events);
    }

    // Datagrams are still reported.
    peer.send_to(b"request", socket.local_address()).unwrap();
    assert_eq!(next(&mut events), Event::Datagrams(NUMBER));
}

fn removed<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let mut events = make(Waker::new().unwrap());
    let [socket, other] = [open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST)];
    let peer = peer();
    events.add_datagrams(&socket, NUMBER).unwrap();
    events.add_datagrams(&other, 8).unwrap();
    events.await_room(&socket, NUMBER).unwrap();
    events.remove_datagrams(&socket, NUMBER).unwrap();
    peer.send_to(b"request", socket.local_address()).unwrap();
    no_event(&mut events);
    peer.send_to(b"request", other.local_address()).unwrap();
    assert_eq!(next(&mut events), Event::Datagrams(8));
    // We can use the number again.
    events.add_datagrams(&socket, NUMBER).unwrap();
    assert_eq!(next(&mut events), Event::Datagrams(NUMBER));
    no_event(&mut events);
}

#[test]
fn address_in_use_is_refused() {
    let claim = DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), options()).unwrap();
    let address = claim.address();
    let _workers = claim.open(2).unwrap();
    let error = DatagramClaim::new(&address, options()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let local = DatagramClaim::new(&Address::Local("socket".into()), options()).unwrap_err();
    assert_eq!(local.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn requested_buffers_are_granted() {
    let small = DatagramOptions { receive_buffer_bytes: 50_000, send_buffer_bytes: 60_000 };
    let claim = DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), small).unwrap();
    let sizes = claim.open(1).unwrap()[0].buffer_sizes().unwrap();
    assert_eq!((sizes.receive, sizes.send), (50_000, 60_000));
}

#[test]
fn discarded_datagrams_are_counted() {
    let small = DatagramOptions { receive_buffer_bytes: 10_000, ..options() };
    let claim = DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), small).unwrap();
    let socket = claim.open(1).unwrap().remove(0);
    let peer = peer();

    for _ in 0..100 {
        peer.send_to(&[0; 1200], socket.local_address()).unwrap();
    }

    await_arrival(&socket);
    let mut batch = ReceiveBatch::new();
    let mut received = 0;
    while socket.receive(&mut batch).unwrap() == Backlog::Possible || batch.datagrams().count() > 0 {
        received += batch.datagrams().count();
    }

    assert!(received < 100);
    peer.send_to(&[0; 1200], socket.local_address()).unwrap();
    await_arrival(&socket);
    assert_eq!(socket.receive(&mut batch).unwrap(), Backlog::Empty);
    if cfg!(all(target_os = "linux", not(feature = "portable"))) {
        assert_eq!(socket.discarded() as usize, 100 - received);
    }
}

/// QUIC headers, long or short, invalid, or cut off anywhere, with connection IDs of all possible lengths.
fn headers() -> impl Iterator<Item = Vec<u8>> {
    let long = (0..=25u8).flat_map(|id_bytes| {
        (0..3u8).map(move |seed| {
            let id = (0..id_bytes).map(move |place| place.wrapping_mul(7) ^ seed.wrapping_mul(83));
            [0xc3, 0, 0, 0, 1, id_bytes].into_iter().chain(id).chain([0; 4]).collect()
        })
    });
    let short = (0..=255u8)
        .map(|byte| [0x40].into_iter().chain((0..12).map(|place| byte.wrapping_add(place))).collect());
    let runts = (1..16).flat_map(|length| [vec![0xc3; length], vec![0x40; length]]);
    long.chain(short).chain(runts)
}

#[test]
fn kernel_routes_datagrams_by_the_worker_byte() {
    for (workers, worker_byte) in [(1, 1), (2, 1), (4, 1), (3, 9), (4, 9)] {
        let routing = WorkerRouting { workers, worker_byte };
        let claim =
            DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), options()).unwrap();
        let sockets = claim.open(workers.into()).unwrap();
        match routing.attach(&sockets[0]) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return,
            result => result.unwrap(),
        }

        let peer = peer();
        let mut batch = ReceiveBatch::new();
        let mut used = vec![0; workers.into()];

        for header in headers() {
            peer.send_to(&header, sockets[0].local_address()).unwrap();
            let expected = routing.worker_of(&header);
            used[usize::from(expected)] += 1;
            await_arrival(&sockets[usize::from(expected)]);
            for (worker, socket) in (0..).zip(&sockets) {
                socket.receive(&mut batch).unwrap();
                let received: Vec<_> = batch.datagrams().map(|datagram| datagram.bytes.to_vec()).collect();
                let own = if worker == expected { vec![header.clone()] } else { Vec::new() };
                assert_eq!(received, own, "worker {worker} of {routing:?}");
            }
        }

        assert!(used.iter().all(|count| *count > 20), "{used:?}");
    }
}

#[test]
fn merged_datagrams_follow_the_first() {
    let claim = DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), options()).unwrap();
    let sockets = claim.open(2).unwrap();
    if let Err(error) = (WorkerRouting { workers: 2, worker_byte: 1 }).attach(&sockets[0]) {
        return assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    }
    let mut batch = ReceiveBatch::new();
    // The datagrams are already merged, just like a network card would do it.
    let bytes = [[0x40, 0, 1, 0], [0x40, 0, 0, 0]].concat();
    let segments =
        SegmentBatch { segment_bytes: Some(4), ..segment_batch(sockets[0].local_address(), &bytes) };
    assert_eq!(open(Ipv4Addr::LOCALHOST).send(&segments), SendOutcome::Sent);
    await_arrival(&sockets[1]);
    sockets[1].receive(&mut batch).unwrap();
    assert_eq!(batch.datagrams().count(), 2);
}

#[test]
fn program_is_replaced_and_applies_to_further_sockets() {
    let claim = DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), options()).unwrap();
    let mut sockets = claim.open(2).unwrap();
    if let Err(error) = (WorkerRouting { workers: 2, worker_byte: 1 }).attach(&sockets[0]) {
        return assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    }
    sockets.push(sockets[1].open_another(options()).unwrap());
    let routing = WorkerRouting { workers: 3, worker_byte: 1 };
    routing.attach(&sockets[2]).unwrap();
    let peer = peer();
    let mut batch = ReceiveBatch::new();
    for worker in 0..3u8 {
        peer.send_to(&[0x40, 0, worker, 0, 0], sockets[0].local_address()).unwrap();
        await_arrival(&sockets[usize::from(worker)]);
        sockets[usize::from(worker)].receive(&mut batch).unwrap();
        assert_eq!(batch.datagrams().count(), 1, "worker {worker}");
    }
}

#[test]
fn worker_byte_selects_its_worker() {
    let routing = WorkerRouting { workers: 5, worker_byte: 1 };
    for worker in 0..5 {
        assert_eq!(routing.worker_of(&[0x40, 99, worker, 99, 99]), worker);
        assert_eq!(routing.worker_of(&[0xc0, 0, 0, 0, 1, 8, 99, worker, 9, 9, 9, 9, 9, 9]), worker);
    }
    // In some datagrams, the ID doesn't have this byte. Others do not have an ID.
    assert_eq!(routing.worker_of(&[0xc0, 0, 0, 0, 1, 1, 99, 1, 99, 3]), 3);
    assert_eq!(routing.worker_of(&[0xc0, 0, 0, 0, 1]), 0);
    assert_eq!(routing.worker_of(&[0x40]), 0);
    assert_eq!(routing.worker_of(&[]), 0);
}

#[test]
fn inherited_socket_works() {
    use std::os::fd::IntoRawFd;
    let socket = Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let socket = UdpSocket::inherit(socket.into_raw_fd(), options()).unwrap();
    assert_eq!(socket.address(), Address::Internet(address));
    peer().send_to(b"request", address).unwrap();
    await_arrival(&socket);
    let mut batch = ReceiveBatch::new();
    socket.receive(&mut batch).unwrap();
    assert_eq!(batch.datagrams().count(), 1);

    let stream = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into_raw_fd();
    assert!(UdpSocket::inherit(stream, options()).is_err());
}

#[test]
fn further_socket_shares_the_address() {
    for address in [Address::Every(0), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()] {
        let first = DatagramClaim::new(&address, options()).unwrap().open(1).unwrap().remove(0);
        let second = first.open_another(options()).unwrap();
        assert_eq!(second.address(), first.address());
    }
    if cfg!(all(target_os = "linux", not(feature = "portable"))) {
        use std::os::fd::IntoRawFd;
        let socket = Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::inherit(socket.into_raw_fd(), options()).unwrap();
        assert_eq!(socket.open_another(options()).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }
}
