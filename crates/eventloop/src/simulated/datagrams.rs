//! Datagrams of the simulated network: sockets of the server, peers, and what happens to datagrams between them.
//!
//! A datagram may be lost, delayed, duplicated, corrupted or marked, and arrive under another address than the one before.
//! Those that arrive together are merged at random, as by the kernel.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::random::Random;
use crate::datagram::batch::{BUFFER_BYTES, MESSAGES_MAX, Message, ReceiveBatch};
use crate::datagram::{Backlog, Datagram, Ecn, SendOutcome, Train};
use crate::event::Event;

/// A peer that sends and receives datagrams: a state machine without I/O, such as a QUIC client.
///
/// The network calls it and must not be called by it.
pub trait DatagramPeer {
    /// Handles a datagram from the server.
    fn receive(&mut self, now: Instant, datagram: Datagram<'_>);

    /// Returns the next datagrams to send. Called until it returns `None`, after each call of another function and in each
    /// iteration of the loop. The network chooses their source.
    fn transmit(&mut self, now: Instant) -> Option<Train<'_>>;

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    fn timeout(&self) -> Option<Instant>;

    /// Handles the timeout, after which [`timeout`](Self::timeout) must return a later one or `None`.
    fn handle_timeout(&mut self, now: Instant);
}

/// Identifies a peer of a network that sends datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPeerId(usize);

/// The properties of the path between a peer and the server, in both directions. Probabilities are from 0 to 1 and apply to
/// each datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// The time in transit.
    pub latency: Duration,
    /// The most by which a datagram is delayed in addition, at random: datagrams overtake each other.
    pub jitter: Duration,
    /// The probability that a datagram is lost.
    pub loss: f64,
    /// The probability that a datagram arrives twice.
    pub duplication: f64,
    /// The probability that a bit of a datagram is inverted.
    pub corruption: f64,
    /// The probability that a datagram whose sender is capable of ECN is marked: congestion experienced.
    pub marking: f64,
    /// The probability that the peer's port changes before it sends a datagram, as by a NAT that has forgotten it.
    pub rebinding: f64,
    /// The largest datagram that arrives, in bytes of its content.
    pub datagram_bytes_max: usize,
}

impl Path {
    /// A path on which each datagram arrives, after a millisecond.
    pub const PERFECT: Path = Path {
        latency: Duration::from_millis(1),
        jitter: Duration::ZERO,
        loss: 0.0,
        duplication: 0.0,
        corruption: 0.0,
        marking: 0.0,
        rebinding: 0.0,
        datagram_bytes_max: 1472,
    };
}

/// The number of datagrams and bytes that were sent over a path, including those that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Datagrams that the server has sent to the peer's current address.
    pub datagrams_to_peer: usize,
    /// Their bytes.
    pub bytes_to_peer: usize,
    /// Datagrams that the peer has sent to the server.
    pub datagrams_from_peer: usize,
    /// Their bytes.
    pub bytes_from_peer: usize,
    /// Datagrams of both that did not arrive.
    pub lost: usize,
}

/// All datagrams of a network.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    endpoints: Vec<Endpoint>,
    peers: Vec<Remote>,
    /// The earliest to arrive first.
    in_transit: BinaryHeap<Reverse<InTransit>>,
    /// The number of datagrams that were ever in transit: those that arrive at the same time keep their order.
    count: u64,
}

/// A socket of the server.
#[derive(Debug)]
struct Endpoint {
    address: SocketAddr,
    /// The number under which the loop watches it.
    number: Option<u32>,
    is_closed: bool,
    received: VecDeque<Packet>,
    /// An event is pending.
    has_event: bool,
    /// The send buffer is full until the server requests an event.
    is_blocked: bool,
}

/// A peer, and the path to it.
struct Remote {
    peer: Rc<RefCell<dyn DatagramPeer>>,
    /// The address under which the server sees it.
    address: SocketAddr,
    path: Path,
    traffic: Traffic,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("address", &self.address)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    source: SocketAddr,
    destination: SocketAddr,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

/// A datagram that arrives later. Ordered by time.
#[derive(Debug, PartialEq, Eq)]
struct InTransit {
    arrival: Duration,
    number: u64,
    packet: Packet,
}

impl Ord for InTransit {
    fn cmp(&self, other: &InTransit) -> std::cmp::Ordering {
        (self.arrival, self.number).cmp(&(other.arrival, other.number))
    }
}

impl PartialOrd for InTransit {
    fn partial_cmp(&self, other: &InTransit) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The virtual time, and the instant that represents its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) start: Instant,
    pub(super) elapsed: Duration,
}

impl Time {
    fn instant(self) -> Instant {
        self.start + self.elapsed
    }
}

impl Datagrams {
    /// Opens a socket of the server.
    pub(super) fn bind(&mut self, address: SocketAddr) -> usize {
        self.endpoints.push(Endpoint {
            address,
            number: None,
            is_closed: false,
            received: VecDeque::new(),
            has_event: false,
            is_blocked: false,
        });
        self.endpoints.len() - 1
    }

    pub(super) fn add_peer(
        &mut self,
        address: SocketAddr,
        peer: Rc<RefCell<dyn DatagramPeer>>,
        path: Path,
    ) -> DatagramPeerId {
        self.peers.push(Remote { peer, address, path, traffic: Traffic::default() });
        DatagramPeerId(self.peers.len() - 1)
    }

    pub(super) fn set_path(&mut self, peer: DatagramPeerId, path: Path) {
        self.peers[peer.0].path = path;
    }

    pub(super) fn rebind(&mut self, peer: DatagramPeerId, address: SocketAddr) {
        self.peers[peer.0].address = address;
    }

    pub(super) fn peer_address(&self, peer: DatagramPeerId) -> SocketAddr {
        self.peers[peer.0].address
    }

    pub(super) fn traffic(&self, peer: DatagramPeerId) -> Traffic {
        self.peers[peer.0].traffic
    }

    /// Delivers the datagrams that arrive now, handles timeouts of peers, and sends what they have.
    pub(super) fn run(&mut self, time: Time, random: &mut Random) {
        while let Some(Reverse(next)) = self.in_transit.peek() {
            if next.arrival > time.elapsed {
                break;
            }
            if let Some(Reverse(InTransit { packet, .. })) = self.in_transit.pop() {
                self.deliver(packet, time);
            }
        }
        for index in 0..self.peers.len() {
            let peer = Rc::clone(&self.peers[index].peer);
            let mut peer = peer.borrow_mut();
            if peer.timeout().is_some_and(|timeout| timeout <= time.instant()) {
                peer.handle_timeout(time.instant());
            }
            while let Some(train) = peer.transmit(time.instant()) {
                self.transmit(index, &train, time, random);
            }
        }
    }

    /// Delivers a datagram to the peer or the socket with its address. It is lost if there is none.
    fn deliver(&mut self, mut packet: Packet, time: Time) {
        if let Some(remote) = self.peers.iter().find(|remote| remote.address == packet.destination) {
            let Packet { source, destination, ecn, ref mut bytes } = packet;
            let datagram = Datagram { source, destination: Some(destination.ip()), ecn, bytes };
            return remote.peer.borrow_mut().receive(time.instant(), datagram);
        }
        let to = packet.destination;
        let is_bound = |endpoint: &&mut Endpoint| {
            let is_address = endpoint.address.ip().is_unspecified() || endpoint.address.ip() == to.ip();
            !endpoint.is_closed && is_address && endpoint.address.port() == to.port()
        };
        if let Some(endpoint) = self.endpoints.iter_mut().find(is_bound) {
            endpoint.received.push_back(packet);
            endpoint.has_event = true;
        }
    }

    /// Sends datagrams of a peer.
    fn transmit(&mut self, peer: usize, train: &Train<'_>, time: Time, random: &mut Random) {
        let Train { destination, ecn, .. } = *train;
        for bytes in train.bytes.chunks(train.datagram_bytes()) {
            let remote = &mut self.peers[peer];
            if random.happens(remote.path.rebinding) {
                let port = u16::try_from(1024 + random.below(60_000)).expect("below 2^16");
                remote.address.set_port(port);
            }
            remote.traffic.datagrams_from_peer += 1;
            remote.traffic.bytes_from_peer += bytes.len();
            let packet = Packet { source: remote.address, destination, ecn, bytes: bytes.to_vec() };
            self.put_in_transit(peer, &packet, time, random);
        }
    }

    /// Sends a datagram over the path of a peer.
    fn put_in_transit(&mut self, peer: usize, packet: &Packet, time: Time, random: &mut Random) {
        let Remote { path, traffic, .. } = &mut self.peers[peer];
        if packet.bytes.len() > path.datagram_bytes_max || random.happens(path.loss) {
            traffic.lost += 1;
            return;
        }
        let copies = if random.happens(path.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let mut packet = packet.clone();
            if packet.ecn.is_some() && random.happens(path.marking) {
                packet.ecn = Some(Ecn::Ce);
            }
            if !packet.bytes.is_empty() && random.happens(path.corruption) {
                let position = random.below(packet.bytes.len());
                packet.bytes[position] ^= 1 << random.below(8);
            }
            let arrival = time.elapsed + path.latency + path.jitter.mul_f64(random.fraction());
            self.in_transit.push(Reverse(InTransit { arrival, number: self.count, packet }));
            self.count += 1;
        }
    }

    /// Returns the time of the next arrival or timeout.
    pub(super) fn next_time(&self, start: Instant) -> Option<Duration> {
        let arrival = self.in_transit.peek().map(|Reverse(next)| next.arrival);
        let timeout = |remote: &Remote| {
            let timeout = remote.peer.borrow().timeout()?;
            Some(timeout.saturating_duration_since(start))
        };
        self.peers.iter().filter_map(timeout).chain(arrival).min()
    }

    pub(super) fn has_event(&self) -> bool {
        self.endpoints.iter().any(Endpoint::has_event)
    }

    /// Takes some of the pending events.
    pub(super) fn take_events(&mut self, random: &mut Random, events: &mut Vec<Event>) {
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.has_event()) {
            if let Some(number) = endpoint.number
                && !random.once_in(4)
            {
                endpoint.has_event = false;
                events.push(Event::Datagrams(number));
            }
        }
    }

    /// Watches a socket, or stops watching it.
    pub(super) fn watch(&mut self, endpoint: usize, number: Option<u32>) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.number = number;
        // As with the kernel, the first event reports datagrams that have arrived already.
        endpoint.has_event = !endpoint.received.is_empty();
    }

    pub(super) fn await_room(&mut self, endpoint: usize) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.is_blocked = false;
        endpoint.has_event = true;
    }

    pub(super) fn close(&mut self, endpoint: usize) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.is_closed = true;
        endpoint.number = None;
        endpoint.received.clear();
    }

    pub(super) fn receive(
        &mut self,
        endpoint: usize,
        batch: &mut ReceiveBatch,
        random: &mut Random,
    ) -> Backlog {
        batch.clear();
        let received = &mut self.endpoints[endpoint].received;
        for _ in 0..random.size(MESSAGES_MAX) {
            let Some(packet) = received.pop_front() else { return Backlog::Empty };
            let Packet { source, destination, ecn, mut bytes } = packet;
            let segment_bytes = bytes.len().max(1);

            // Datagrams are merged if all have the same size, except the last, which may be shorter.
            while let Some(next) = received.front() {
                let is_like = (next.source, next.destination, next.ecn) == (source, destination, ecn);
                let fits = next.bytes.len() <= segment_bytes && bytes.len() % segment_bytes == 0;
                let merged_bytes = bytes.len() + next.bytes.len();
                if !is_like || !fits || merged_bytes > BUFFER_BYTES || random.once_in(8) {
                    break;
                }
                bytes.append(&mut received.pop_front().expect("the next packet").bytes);
            }

            let destination = Some(destination.ip());
            batch.push(Message { source, destination, ecn, bytes: bytes.len(), segment_bytes }, &bytes);
        }
        Backlog::Possible
    }

    pub(super) fn send(
        &mut self,
        endpoint: usize,
        train: &Train<'_>,
        time: Time,
        random: &mut Random,
    ) -> SendOutcome {
        let local = self.endpoints[endpoint].address;
        let source = SocketAddr::new(train.source.unwrap_or(local.ip()), local.port());
        let mut outcome = SendOutcome::Sent;
        let mut sent_bytes = 0;
        for bytes in train.bytes.chunks(train.datagram_bytes()) {
            let endpoint = &mut self.endpoints[endpoint];
            endpoint.is_blocked |= random.once_in(64);
            if endpoint.is_blocked {
                return SendOutcome::Blocked { sent_bytes };
            }
            sent_bytes += bytes.len();

            let Some(peer) = self.peers.iter().position(|remote| remote.address == train.destination) else {
                continue;
            };
            let Remote { path, traffic, .. } = &mut self.peers[peer];
            traffic.datagrams_to_peer += 1;
            traffic.bytes_to_peer += bytes.len();
            // The link of the server itself may have the smallest MTU.
            if bytes.len() > path.datagram_bytes_max && random.once_in(2) {
                traffic.lost += 1;
                outcome = SendOutcome::Lost;
                continue;
            }
            let packet =
                Packet { source, destination: train.destination, ecn: train.ecn, bytes: bytes.to_vec() };
            self.put_in_transit(peer, &packet, time, random);
        }
        outcome
    }
}

impl Endpoint {
    fn has_event(&self) -> bool {
        self.has_event && self.number.is_some()
    }
}
