//! An echo service for datagrams. We run the same code on the kernel's loops and on the simulated one.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket as Peer};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::simulated::{DatagramPeer, Network, Path, Random, Simulated, SimulatedDatagrams};
use crate::{
    Backlog, Datagram, DatagramClaim, DatagramOptions, DatagramSocket, Ecn, Event, EventLoop, ReceiveBatch,
    SegmentBatch, SendOutcome, UdpSocket, Waker,
};

test_on_each_loop! {
    echo_returns_each_datagram => echo_over_the_kernel;
}

const NUMBER: u32 = 3;

/// Sends each datagram back to where it came from.
struct Echo<L: EventLoop> {
    events: L,
    socket: L::Datagrams,
    batch: ReceiveBatch,
    /// Answers we have not had room for yet.
    pending: VecDeque<Answer>,
}

struct Answer {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

impl<L: EventLoop> Echo<L> {
    fn new(mut events: L, socket: L::Datagrams) -> Echo<L> {
        events.add_datagrams(&socket, NUMBER).unwrap();
        Echo { events, socket, batch: ReceiveBatch::new(), pending: VecDeque::new() }
    }

    /// Waits once and handles all events.
    fn run_iteration(&mut self) {
        self.events.wait(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = self.events.next_event() {
            assert_eq!(event, Event::Datagrams(NUMBER));
            self.receive();
            self.send();
        }
    }

    fn receive(&mut self) {
        loop {
            let backlog = self.socket.receive(&mut self.batch).unwrap();
            self.pending.extend(self.batch.datagrams().map(|datagram| Answer {
                destination: datagram.source,
                source: datagram.destination,
                ecn: datagram.ecn,
                bytes: datagram.bytes.to_vec(),
            }));
            if backlog == Backlog::Empty {
                return;
            }
        }
    }

    fn send(&mut self) {
        while let Some(Answer { destination, source, ecn, bytes }) = self.pending.front() {
            let (destination, source, ecn) = (*destination, *source, *ecn);
            match self.socket.send(&SegmentBatch { destination, source, ecn, bytes, segment_bytes: None }) {
                SendOutcome::Sent | SendOutcome::Lost => drop(self.pending.pop_front()),
                SendOutcome::Blocked { sent_bytes } => {
                    assert_eq!(sent_bytes, 0);
                    self.events.await_room(&self.socket, NUMBER).unwrap();
                    return;
                }
            }
        }
    }
}

fn echo_over_the_kernel<L: EventLoop<Datagrams = UdpSocket>>(make: impl Fn(Waker) -> L) {
    let claim =
        DatagramClaim::new(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), DatagramOptions::default());
    let socket = claim.unwrap().open(1).unwrap().remove(0);
    let address = socket.local_address();
    let mut echo = Echo::new(make(Waker::new().unwrap()), socket);

    let client = std::thread::spawn(move || {
        let peers: Vec<_> = (0..20).map(|_| Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        for round in 0..50 {
            for peer in &peers {
                peer.send_to(&[round; 100], address).unwrap();
            }
            for peer in &peers {
                peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let mut buffer = [0; 200];
                assert_eq!(peer.recv_from(&mut buffer).unwrap(), (100, address));
                assert_eq!(buffer[..100], [round; 100]);
            }
        }
    });

    while !client.is_finished() {
        echo.run_iteration();
    }
    client.join().unwrap();
}

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Time after which a client that is waiting for an echo sends again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A simulated client with numbered datagrams, each of which it will send until it is echoed.
#[derive(Default)]
struct Client {
    unanswered: BTreeSet<u16>,
    ecn: Option<Ecn>,
    /// Time to try again, or `None` before the first attempt.
    next_attempt: Option<Instant>,
    to_send: bool,
    /// The datagrams to send.
    segments: Vec<u8>,
    /// The numbers of all echoes, in the order they arrived.
    received: Vec<u16>,
    marked: usize,
    corrupted: usize,
}

impl Client {
    /// Returns a datagram's content. Every fifty bytes start with the number and its inverse.
    fn content(number: u16) -> Vec<u8> {
        let mut bytes = vec![0; 100 + usize::from(number % 3) * 50];
        for part in bytes.chunks_mut(50) {
            part[..2].copy_from_slice(&number.to_ne_bytes());
            part[2..4].copy_from_slice(&(!number).to_ne_bytes());
        }
        bytes
    }
}

impl DatagramPeer for Client {
    fn receive(&mut self, _: Instant, datagram: Datagram<'_>) {
        assert_eq!(datagram.source, SERVER);
        self.marked += usize::from(datagram.ecn == Some(Ecn::Ce));
        let number = u16::from_ne_bytes([datagram.bytes[0], datagram.bytes[1]]);
        if datagram.bytes == Client::content(number) {
            self.unanswered.remove(&number);
            self.received.push(number);
        } else {
            self.corrupted += 1;
        }
    }

    fn transmit(&mut self, now: Instant) -> Option<SegmentBatch<'_>> {
        if self.next_attempt.is_none() {
            self.next_attempt = Some(now + RETRY_INTERVAL);
            self.to_send = true;
        }
        if !std::mem::take(&mut self.to_send) || self.unanswered.is_empty() {
            return None;
        }
        // Several datagrams of the same size, and a shorter one at the end.
        let length = Client::content(*self.unanswered.first()?).len();
        let same = self.unanswered.iter().filter(|number| Client::content(**number).len() == length);
        self.segments = same.take(30).flat_map(|number| Client::content(*number)).collect();
        Some(SegmentBatch {
            destination: SERVER,
            source: None,
            ecn: self.ecn,
            bytes: &self.segments,
            segment_bytes: Some(length),
        })
    }

    fn timeout(&self) -> Option<Instant> {
        self.next_attempt.filter(|_| !self.unanswered.is_empty())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.next_attempt = Some(now + RETRY_INTERVAL);
        self.to_send = true;
    }
}

/// Runs clients on these paths until they have all their echoes. Returns the network and the clients.
fn simulate(seed: u64, paths: &[Path]) -> (Network, Vec<Rc<RefCell<Client>>>) {
    let network = Network::new(seed);
    let mut clients = Vec::new();
    for (number, path) in (1..).zip(paths) {
        let unanswered = (0..200).collect();
        let client = Client { unanswered, ecn: Some(Ecn::Ect0), ..Client::default() };
        let client = Rc::new(RefCell::new(client));
        let address = SocketAddr::from(([198, 51, 100, number], 50_000));
        network.add_datagram_peer(address, Rc::<RefCell<Client>>::clone(&client), *path);
        clients.push(client);
    }
    let mut echo = Echo::new(Simulated::new(network.clone()), SimulatedDatagrams::bind(&network, SERVER));
    for _ in 0..100_000 {
        if clients.iter().all(|client| client.borrow().unanswered.is_empty()) {
            drop(echo);
            return (network, clients);
        }
        echo.run_iteration();
    }
    panic!("seed {seed}: unanswered after {:?}", network.elapsed());
}

#[test]
fn perfect_path_delivers_all_in_order() {
    for seed in 0..20 {
        let (_, clients) = simulate(seed, &[Path::PERFECT]);
        let client = clients[0].borrow();
        assert_eq!(client.received.len(), 200);
        assert_eq!((client.marked, client.corrupted), (0, 0));
        // The server sends in the same order as it receives.
        let parts = client.received.chunk_by(|first, second| second > first).count();
        assert!(parts <= 9, "seed {seed}: {:?}", client.received);
    }
}

#[test]
fn impaired_paths_deliver_all_in_the_end() {
    for seed in 0..40 {
        let mut random = Random::new(seed);

        let mut some = |most: f64| if random.once_in(2) { most * random.fraction() } else { 0.0 };
        let paths: Vec<Path> = (0..3)
            .map(|_| Path {
                latency: Duration::from_secs_f64(some(0.05)),
                jitter: Duration::from_secs_f64(some(0.05)),
                loss: some(0.3),
                duplication: some(0.3),
                corruption: some(0.3),
                marking: some(0.5),
                rebinding: some(0.02),
                ..Path::PERFECT
            })
            .collect();

        let (_, clients) = simulate(seed, &paths);
        for (client, path) in clients.iter().zip(&paths) {
            let client = client.borrow();
            assert!(path.marking > 0.0 || client.marked == 0);
            assert!(path.corruption > 0.0 || client.corrupted == 0);
        }
    }
}

#[test]
fn each_impairment_has_its_effect() {
    let path = |change: fn(&mut Path)| {
        let mut path = Path::PERFECT;
        change(&mut path);
        let (network, clients) = simulate(9, &[path]);
        let client = clients[0].take();
        (client, network)
    };
    let repeated = |client: &Client| client.received.len() > 200;
    let reordered =
        |client: &Client| client.received.windows(2).filter(|pair| pair[0] > pair[1]).count() > 20;

    assert!(repeated(&path(|path| path.duplication = 0.2).0));
    assert!(reordered(&path(|path| path.jitter = Duration::from_millis(20)).0));
    assert!(path(|path| path.marking = 0.2).0.marked > 10);
    assert!(path(|path| path.corruption = 0.2).0.corrupted > 10);
    assert!(path(|path| path.loss = 0.2).1.elapsed() > Duration::from_secs(1));
    assert!(path(|path| path.latency = Duration::from_millis(80)).1.elapsed() >= Duration::from_millis(160));
}

#[test]
fn seed_repeats_the_run() {
    let path = Path {
        jitter: Duration::from_millis(30),
        loss: 0.1,
        duplication: 0.1,
        rebinding: 0.02,
        ..Path::PERFECT
    };
    let run = |seed| {
        let (network, clients) = simulate(seed, &[path, path]);
        let received: Vec<_> = clients.iter().map(|client| client.borrow().received.clone()).collect();
        (network.elapsed(), received)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn datagrams_beyond_the_mtu_and_to_earlier_addresses_are_lost() {
    let network = Network::new(1);
    let address = SocketAddr::from(([198, 51, 100, 1], 50_000));
    let client = Rc::new(RefCell::new(Client::default()));
    let path = Path { datagram_bytes_max: 1200, ..Path::PERFECT };
    let peer = network.add_datagram_peer(address, Rc::<RefCell<Client>>::clone(&client), path);
    let mut events = Simulated::new(network.clone());
    let socket = SimulatedDatagrams::bind(&network, SERVER);
    let mut send = |destination, length| {
        let bytes = Client::content(0).repeat(13);
        let segments = SegmentBatch {
            destination,
            source: None,
            ecn: None,
            bytes: &bytes[..length],
            segment_bytes: None,
        };
        while matches!(socket.send(&segments), SendOutcome::Blocked { .. }) {
            events.await_room(&socket, NUMBER).unwrap();
        }
        events.wait(Some(Duration::from_secs(1))).unwrap();
        client.borrow().corrupted + client.borrow().received.len()
    };
    assert_eq!(send(address, 1201), 0);
    assert_eq!(send(address, 1200), 1);
    assert_eq!((network.traffic(peer).lost, network.traffic(peer).bytes_to_peer), (1, 2401));

    let moved = SocketAddr::from(([203, 0, 113, 1], 40_000));
    network.rebind(peer, moved);
    assert_eq!(network.peer_address(peer), moved);
    assert_eq!(send(address, 1200), 1);
    assert_eq!(send(moved, 1200), 2);
    network.set_path(peer, Path { loss: 1.0, ..path });
    assert_eq!(send(moved, 1200), 2);
    assert_eq!(network.traffic(peer).datagrams_to_peer, 4);
}
