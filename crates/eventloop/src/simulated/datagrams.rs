//! Datagrams in a simulated network: the server's sockets, the peers, and everything in between.
//!
//! A datagram may be lost, delayed, duplicated, corrupted or marked, or it may arrive from a different address than the one before.
//! Like in the kernel, datagrams that arrive together can be merged; here, this happens at random.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::random::Random;
use crate::datagram::batch::{BUFFER_BYTES, MESSAGES_MAX, Message, ReceiveBatch};
use crate::datagram::{Backlog, Datagram, Ecn, SegmentBatch, SendOutcome};
use crate::event::Event;

/// A peer that sends and receives datagrams, e.g. a QUIC client. It should be a state machine without I/O.
///
/// The network calls the peer. The peer must not call the network.
pub trait DatagramPeer {
    /// Handles a datagram from the server.
    fn receive(&mut self, now: Instant, datagram: Datagram<'_>);

    /// Returns the next datagrams to send. The network will call this in each loop iteration and after any other call, until the
    /// result is `None`. It also chooses the source address.
    fn transmit(&mut self, now: Instant) -> Option<SegmentBatch<'_>>;

    /// Returns when [`handle_timeout`](Self::handle_timeout) should be called.
    fn timeout(&self) -> Option<Instant>;

    /// Handles the timeout. After this, [`timeout`](Self::timeout) must return a later time or `None`.
    fn handle_timeout(&mut self, now: Instant);
}

/// Identifies a peer that sends datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPeerId(usize);

/// Properties of the path between a peer and the server, for both directions. Probabilities are from 0 to 1, per datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Time in transit.
    pub latency: Duration,
    /// Maximum additional delay, chosen at random. Note that this can make datagrams overtake each other.
    pub jitter: Duration,
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that a datagram arrives twice.
    pub duplication: f64,
    /// Probability that a bit is inverted.
    pub corruption: f64,
    /// Probability that a datagram is marked "congestion experienced". This requires a sender that is capable of ECN.
    pub marking: f64,
    /// Probability that the peer's port changes before it sends a datagram, as it would if a NAT had forgotten the peer.
    pub rebinding: f64,
    /// The largest content that arrives, in bytes.
    pub datagram_bytes_max: usize,
}

impl Path {
    /// Each datagram arrives after a millisecond.
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

/// Datagrams and bytes sent over a path, including lost ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Datagrams sent by the server to the peer's current address.
    pub datagrams_to_peer: usize,
    /// Total size of these datagrams.
    pub bytes_to_peer: usize,
    /// Datagrams sent by the peer.
    pub datagrams_from_peer: usize,
    /// Total size of these datagrams.
    pub bytes_from_peer: usize,
    /// Number of datagrams lost, in both directions.
    pub lost: usize,
}

/// All datagrams in a network.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    endpoints: Vec<Endpoint>,
    peers: Vec<Remote>,
    /// Sorted by arrival, earliest first.
    in_transit: BinaryHeap<Reverse<InTransit>>,
    /// Number of datagrams that were ever in transit. This keeps datagrams in order if they arrive at the same time.
    count: u64,
}

/// One of the server's sockets.
#[derive(Debug)]
struct Endpoint {
    address: SocketAddr,
    /// The number that the loop watches it under.
    number: Option<u32>,
    is_closed: bool,
    received: VecDeque<Packet>,
    /// Whether an event is pending.
    has_event: bool,
    /// Whether the send buffer is full. This will last until the server requests an event.
    is_blocked: bool,
}

/// A peer, and the path to it.
struct Remote {
    peer: Rc<RefCell<dyn DatagramPeer>>,
    /// The peer's address as seen by the server.
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

/// A datagram that will arrive later. Ordered by time.
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

/// Virtual time, and the instant when it started.
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

    /// Delivers datagrams that arrive now, handles timeouts of peers and sends their datagrams.
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
            while let Some(segments) = peer.transmit(time.instant()) {
                self.transmit(index, &segments, time, random);
            }
        }
    }

    /// Delivers a datagram to the peer or socket with its address. If there is no such peer or socket, the datagram is lost.
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

    /// Sends a peer's datagrams.
    fn transmit(&mut self, peer: usize, segments: &SegmentBatch<'_>, time: Time, random: &mut Random) {
        let SegmentBatch { destination, ecn, .. } = *segments;
        for bytes in segments.bytes.chunks(segments.datagram_bytes()) {
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

    /// Sends a datagram over a peer's path.
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

    /// Returns when the next arrival or timeout is.
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

    /// Starts or stops watching a socket.
    pub(super) fn watch(&mut self, endpoint: usize, number: Option<u32>) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.number = number;
        // Like with the kernel, there is a first event for datagrams that have arrived before.
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

            // Datagrams can be merged if they have the same size. The last one can be shorter.
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
        segments: &SegmentBatch<'_>,
        time: Time,
        random: &mut Random,
    ) -> SendOutcome {
        let local = self.endpoints[endpoint].address;
        let source = SocketAddr::new(segments.source.unwrap_or(local.ip()), local.port());
        let mut outcome = SendOutcome::Sent;
        let mut sent_bytes = 0;
        for bytes in segments.bytes.chunks(segments.datagram_bytes()) {
            let endpoint = &mut self.endpoints[endpoint];
            endpoint.is_blocked |= random.once_in(64);
            if endpoint.is_blocked {
                return SendOutcome::Blocked { sent_bytes };
            }
            sent_bytes += bytes.len();

            let Some(peer) = self.peers.iter().position(|remote| remote.address == segments.destination)
            else {
                continue;
            };
            let Remote { path, traffic, .. } = &mut self.peers[peer];
            traffic.datagrams_to_peer += 1;
            traffic.bytes_to_peer += bytes.len();
            // The smallest MTU may be the one of the server's own link.
            if bytes.len() > path.datagram_bytes_max && random.once_in(2) {
                traffic.lost += 1;
                outcome = SendOutcome::Lost;
                continue;
            }
            let packet = Packet {
                source,
                destination: segments.destination,
                ecn: segments.ecn,
                bytes: bytes.to_vec(),
            };
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
