//! Routes datagrams by their connection IDs to this worker, to another worker, or to the process we are
//! taking over from.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cannery_eventloop::DatagramSocket;
use cannery_transport::limits::{QUIC_HANDSHAKE_DATAGRAM_BYTES, QUIC_RECEIVED_DATAGRAM_BYTES_MAX};
use cannery_transport::quic::{Arrival, Context, Issuer, PacketType};

use super::forwarding::Forwarding;
use super::limits::{PREDECESSOR_GRACE, SHARED_SOCKETS_MAX};

/// Routes a worker's datagrams.
pub(super) struct Router<D> {
    context: Context,
    /// Issuer of our connection IDs.
    issuer: Issuer,
    forwarding: Option<Forwarding<D>>,
    peers: Peers,
    /// Time at which the predecessor will have exited. `None` until we get a datagram for it.
    predecessor_ends: Option<Instant>,
    /// Time from which we will be the only ones to read the sockets. `None` until we get a connection
    /// attempt.
    reads_alone_from: Option<Instant>,
}

/// Other workers.
pub(super) struct Peers {
    /// Addresses of the forwarding sockets of all workers, indexed by worker number.
    pub(super) workers: Vec<SocketAddr>,
    /// Like `workers`, but for the process we are taking over from (if any).
    pub(super) predecessors: Vec<SocketAddr>,
    /// Time that the predecessor will take to drain its connections.
    pub(super) drain: Duration,
}

/// Where a datagram should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// This worker (or a process that has exited) issued the connection ID. The datagram either belongs to
    /// a connection or responds to a Retry packet.
    Own,
    /// The connection ID was chosen by a client, so it is a connection attempt.
    Attempt,
    /// The datagram was forwarded to the worker that issued the connection ID.
    Forwarded,
    /// The datagram does not belong to any connection, or it is for a worker that we do not know yet (the
    /// client will send it again in that case). We must not pass it to the endpoint, which would end the
    /// connection with a stateless reset.
    Dropped,
}

impl<D: DatagramSocket> Router<D> {
    pub(super) fn new(context: Context, issuer: Issuer, socket: Option<D>, peers: Peers) -> Router<D> {
        let key = context.forwarding_key();
        let forwarding = socket.map(|socket| Forwarding::new(socket, key));
        Router { context, issuer, forwarding, peers, predecessor_ends: None, reads_alone_from: None }
    }

    pub(super) fn socket(&self) -> Option<&D> {
        self.forwarding.as_ref().map(Forwarding::socket)
    }

    /// Parses a forwarded datagram. Returns the number of the socket that received it as well as the
    /// datagram, or `None` if it is invalid.
    pub(super) fn parse<'d>(&self, bytes: &'d [u8]) -> Option<(usize, Arrival<'d>)> {
        self.forwarding.as_ref()?.parse(bytes)
    }

    /// Decides where a datagram should go, forwarding it if the destination is another worker. `number` is
    /// the socket that received it.
    #[inline]
    pub(super) fn route(&mut self, number: usize, arrival: &Arrival<'_>, now: Instant) -> Route {
        // We have announced that we do not accept datagrams of this length.
        if arrival.bytes.len() > usize::from(QUIC_RECEIVED_DATAGRAM_BYTES_MAX) {
            return Route::Dropped;
        }
        match self.context.id_layout().named_issuer(arrival.bytes) {
            // We do not need to check the ID here: a datagram without a connection does not take much time.
            Some(named)
                if named == self.issuer && PacketType::of(arrival.bytes) == Some(PacketType::Short) =>
            {
                Route::Own
            }
            _ => self.route_by_checked_id(number, arrival, now),
        }
    }

    fn route_by_checked_id(&mut self, number: usize, arrival: &Arrival<'_>, now: Instant) -> Route {
        let Some(issuer) = self.context.issuer_of(arrival.bytes) else {
            return if can_be_attempt(arrival.bytes) { Route::Attempt } else { Route::Dropped };
        };
        if issuer == self.issuer {
            return Route::Own;
        }

        let own = self.issuer.generation;
        let workers = if issuer.generation == own {
            &self.peers.workers
        } else if issuer.generation == own.next() {
            // Another process is taking over and has started to serve. It reads the sockets as well.
            return Route::Dropped;
        } else if self.has_predecessor(now) {
            &self.peers.predecessors
        } else {
            return Route::Own;
        };

        match (workers.get(usize::from(issuer.worker)), &mut self.forwarding) {
            (Some(destination), Some(forwarding)) => {
                forwarding.forward(*destination, number, arrival);
                Route::Forwarded
            }
            _ => Route::Dropped,
        }
    }

    /// Whether a predecessor may be reading the sockets, too. In this case, each process might get a part
    /// of a ClientHello.
    pub(super) fn shares_sockets(&mut self, now: Instant) -> bool {
        !self.peers.predecessors.is_empty()
            && now < *self.reads_alone_from.get_or_insert(now + SHARED_SOCKETS_MAX)
    }

    /// Returns `true` while a predecessor might have connections.
    fn has_predecessor(&mut self, now: Instant) -> bool {
        if self.peers.predecessors.is_empty() {
            return false;
        }
        now < *self.predecessor_ends.get_or_insert(now + self.peers.drain + PREDECESSOR_GRACE)
    }
}

/// Whether a datagram with an ID chosen by a client may be a connection attempt. Clients MUST pad datagrams
/// with Initial packets to full length (RFC 9000 §14.1), but not datagrams that only contain early data.
fn can_be_attempt(datagram: &[u8]) -> bool {
    match PacketType::of(datagram) {
        None | Some(PacketType::Short) => false,
        Some(PacketType::ZeroRtt) => true,
        Some(_) => datagram.len() >= usize::from(QUIC_HANDSHAKE_DATAGRAM_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use cannery_eventloop::simulated::SimulatedDatagrams;
    use cannery_transport::quic::{EarlyData, Generation};
    use cannery_transport::{Certificates, Protocol, SelfSigned, Settings, Version};

    use super::*;

    fn router() -> Router<SimulatedDatagrams> {
        let now = SystemTime::now();
        let names = ["localhost".to_owned()];
        let settings = Settings {
            certificates: Certificates::self_signed(SelfSigned::Ecdsa, &names, now).unwrap(),
            seed: None,
            versions: vec![Version::Tls13],
            protocols: vec![Protocol::Http2],
            now,
        };
        let tls = cannery_transport::Context::new(settings).unwrap();
        let context = Context::new(&tls, None, EarlyData::Refused).unwrap();
        let issuer = Issuer { worker: 1, generation: Generation::new(0) };
        let peers = Peers { workers: Vec::new(), predecessors: Vec::new(), drain: Duration::ZERO };
        Router::new(context, issuer, None, peers)
    }

    /// This connection ID names worker 1 of the first generation, but the check is wrong.
    const FORGED: [u8; 10] = [0xe0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn datagrams_without_an_issued_id_are_attempts_or_dropped() {
        let mut router = router();
        let mut route = |first: u8, id: &[u8], length: usize| {
            let mut bytes = vec![first];
            if first & 0x80 != 0 {
                bytes.extend_from_slice(&[0, 0, 0, 1, u8::try_from(id.len()).unwrap()]);
            }
            bytes.extend_from_slice(id);
            bytes.resize(length, 0);
            let source = ([192, 0, 2, 1], 443).into();
            let arrival = Arrival { source, destination: None, ecn: 0, bytes: &bytes };
            router.route(0, &arrival, Instant::now())
        };

        // Initial packets, with an ID of the client's and with one that looks like ours.
        assert_eq!(route(0xc0, &[7; 8], 1200), Route::Attempt);
        assert_eq!(route(0xc0, &FORGED, 1200), Route::Attempt);
        assert_eq!(route(0xc0, &[7; 8], 1199), Route::Dropped);
        // Early data.
        assert_eq!(route(0xd0, &[7; 8], 100), Route::Attempt);
        // Short headers. The endpoint finds no connection for the first.
        assert_eq!(route(0x40, &FORGED, 100), Route::Own);
        assert_eq!(route(0x40, &[7; 10], 1200), Route::Dropped);
        assert_eq!(route(0x40, &[], 1), Route::Dropped);
    }
}
