//! An endpoint routes datagrams to connections, admits new connections, and replies to other datagrams.
//!
//! Half-open connections are counted, including those that the caller has not accepted yet. From
//! [`QUIC_HALF_OPEN_BEFORE_RETRY`] on, clients have to prove their address with a Retry packet first, so a
//! flood of forged addresses does not take any state. From [`QUIC_HALF_OPEN_MAX`] on, Initial packets are
//! dropped before any cryptography is done.

// Connections whose late datagrams are dropped.
mod recently_closed;

// Recognizes Retry packets.
mod retry;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{ConnectionHandle, ConnectionId, DatagramEvent, EcnCodepoint, EndpointEvent, ServerConfig};

use self::recently_closed::RecentlyClosed;
use self::retry::contains_retry;
use super::cid::{ConnectionIds, Generation, Issuer, long_header_destination};
use super::connection::budget::TokenBucket;
use super::connection::buffers::DatagramBuffers;
use super::connection::datagram::{Arrival, Transmit};
use super::connection::{CloseReason, Connection, ConnectionEvent, ConnectionKey};
use super::context::Context;
use super::packets::packet_type::PacketType;
use crate::credentials::seed::derive;
use crate::limits::{
    QUIC_EARLY_DATAGRAMS_MAX, QUIC_HALF_OPEN_BEFORE_RETRY, QUIC_HALF_OPEN_MAX, QUIC_HANDSHAKE_DATAGRAM_BYTES,
    QUIC_RECEIVED_DATAGRAM_BYTES_MAX, QUIC_RESETS_MAX, QUIC_RESETS_PER_SECOND,
    QUIC_VERSION_NEGOTIATION_INTERVAL_MS,
};

/// Routes the datagrams of a worker. Each worker has its own endpoint, so it does not need a lock.
pub struct Endpoint {
    quinn: quinn_proto::Endpoint,
    ids: Arc<ConnectionIds>,
    configs: Configs,
    buffers: DatagramBuffers,
    /// Whether we are currently using the configuration that drops Initial packets.
    drops_attempts: bool,
    /// State of each connection, indexed by key.
    states: Vec<State>,
    /// Half-open connections. The key is the destination connection ID of the client's first packet.
    half_open: HashMap<ConnectionId, HalfOpen>,
    recently_closed: RecentlyClosed,
    last_version_negotiation: Option<Instant>,
    resets: TokenBucket,
}

/// Configurations for new connections. `quinn-proto` uses one of them.
struct Configs {
    open: Arc<ServerConfig>,
    /// Drops all Initial packets that do not belong to a connection.
    saturated: Arc<ServerConfig>,
}

/// State of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    /// Contains the destination connection ID of the client's first packet.
    Handshaking(ConnectionId),
    /// The handshake is complete or has failed. Contains the same ID.
    Established(ConnectionId),
}

/// A half-open connection.
#[derive(Clone, Copy, Debug)]
enum HalfOpen {
    /// The caller has not accepted it yet. The endpoint keeps further datagrams, each of which takes
    /// additional memory.
    Waiting {
        datagrams: usize,
    },
    Accepted,
}

/// A connection attempt. Callers must pass it to [`Endpoint::accept`] or another method of the endpoint,
/// which would otherwise keep its state.
#[must_use]
#[derive(Debug)]
pub struct Incoming {
    quinn: quinn_proto::Incoming,
    /// Destination connection ID of the first packet.
    id: ConnectionId,
    /// Length of the first datagram.
    first_bytes: usize,
}

/// Result of receiving a datagram.
#[derive(Debug)]
pub enum Received {
    /// It belongs to this connection.
    Connection(ConnectionKey, ConnectionEvent),
    /// A client wants to connect.
    Incoming(Incoming),
    /// The endpoint has written a reply to the buffer, e.g. a version negotiation, Retry, a stateless reset,
    /// or a refusal.
    Reply(Transmit),
    /// It was dropped or is kept for an [`Incoming`].
    Dropped,
    /// It only seemed to start a connection and was dropped. In most cases, keys have been derived for
    /// it.
    Invalid,
}

/// A connection that could not be accepted.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct AcceptError {
    /// The datagram in the buffer, which closes the connection.
    pub reply: Option<Transmit>,
    /// Why the connection could not be accepted.
    pub reason: CloseReason,
}

impl Incoming {
    /// Returns the client's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.quinn.remote_address()
    }

    /// Returns `true` if the client has proved with a token that it receives datagrams at its address.
    pub fn is_validated(&self) -> bool {
        self.quinn.remote_address_validated()
    }
}

impl Endpoint {
    /// Creates the endpoint of a worker. `seed` must be random and must not be used for anything else.
    pub fn new(context: &Context, worker: u8, generation: Generation, seed: [u8; 32]) -> Self {
        let [mut quinn_seed, mut id_key] = [[0; 32]; 2];
        derive(&seed, b"cannery quic: state machine", &mut quinn_seed);
        derive(&seed, b"cannery quic: random bytes of connection IDs", &mut id_key);

        let open = context.server_config();
        let mut saturated = open.clone();
        saturated.max_incoming(0);
        let configs = Configs { open: Arc::new(open), saturated: Arc::new(saturated) };

        let mut config = context.endpoint_config(Issuer { worker, generation }, id_key);
        config.rng_seed(Some(quinn_seed));
        let quinn = quinn_proto::Endpoint::new(Arc::new(config), Some(configs.open.clone()), true, None);

        Self {
            quinn,
            ids: context.ids(),
            configs,
            buffers: DatagramBuffers::default(),
            drops_attempts: false,
            states: Vec::new(),
            half_open: HashMap::new(),
            recently_closed: RecentlyClosed::default(),
            last_version_negotiation: None,
            resets: TokenBucket::new(QUIC_RESETS_MAX, QUIC_RESETS_PER_SECOND),
        }
    }

    /// Processes a datagram. Clears `reply`, and possibly writes a reply to it.
    pub fn receive(&mut self, now: Instant, arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Received {
        reply.clear();
        if arrival.bytes.len() > usize::from(QUIC_RECEIVED_DATAGRAM_BYTES_MAX) {
            return Received::Dropped;
        }
        // Most datagrams belong to an established connection.
        let is_short = PacketType::of(arrival.bytes) == Some(PacketType::Short);
        if !is_short && self.is_unwanted(now, arrival.bytes) {
            return Received::Dropped;
        }

        let event = self.quinn.handle(
            now,
            arrival.source,
            arrival.destination,
            EcnCodepoint::from_bits(arrival.ecn),
            self.buffers.copy(arrival.bytes),
            reply,
        );

        match event {
            None if self.may_have_needed_keys(arrival.bytes) => Received::Invalid,
            None => Received::Dropped,
            Some(DatagramEvent::ConnectionEvent(handle, event)) => Received::Connection(
                ConnectionKey(handle.0),
                ConnectionEvent { quinn: event, source: arrival.source, now, bytes: arrival.bytes.len() },
            ),
            Some(DatagramEvent::Response(transmit)) => self.limit_reply(now, transmit.into(), reply),
            Some(DatagramEvent::NewConnection(incoming)) if self.is_late(now, arrival, &incoming) => {
                self.quinn.ignore(incoming);
                Received::Invalid
            }
            // A client wants to connect.
            Some(DatagramEvent::NewConnection(incoming)) => {
                let id =
                    long_header_destination(arrival.bytes).expect("a connection begins with a long header");
                self.admit(Incoming { quinn: incoming, id, first_bytes: arrival.bytes.len() }, reply)
            }
        }
    }

    /// Returns `true` if a datagram with a long header must be dropped.
    fn is_unwanted(&mut self, now: Instant, datagram: &[u8]) -> bool {
        Self::is_too_short(datagram)
            || self.exceeds_early_datagrams(datagram)
            || contains_retry(datagram)
            || self.is_of_recently_closed(now, datagram)
    }

    /// Whether a datagram contains an Initial packet and is shorter than RFC 9000 §14.1 requires.
    fn is_too_short(datagram: &[u8]) -> bool {
        datagram.len() < usize::from(QUIC_HANDSHAKE_DATAGRAM_BYTES)
            && PacketType::of(datagram) == Some(PacketType::Initial)
    }

    /// Returns `true` if there already are enough datagrams for a connection that is not accepted yet.
    fn exceeds_early_datagrams(&mut self, datagram: &[u8]) -> bool {
        if self.half_open.is_empty() {
            return false;
        }

        let half_open = long_header_destination(datagram).and_then(|id| self.half_open.get_mut(&id));
        let Some(HalfOpen::Waiting { datagrams }) = half_open else { return false };
        *datagrams += 1;
        *datagrams > QUIC_EARLY_DATAGRAMS_MAX
    }

    /// Returns `true` for a late first datagram of a connection that was closed by its peer.
    fn is_of_recently_closed(&mut self, now: Instant, datagram: &[u8]) -> bool {
        PacketType::of(datagram) == Some(PacketType::Initial)
            && long_header_destination(datagram)
                .is_some_and(|id| self.recently_closed.has_begun_with(now, &id))
    }

    /// Returns `true` for a late datagram of a connection that was closed by its peer, although such a
    /// datagram seems to start another connection.
    ///
    /// It can be recognized by its destination ID, which was issued by us. This is also the case if the
    /// client responds to a Retry packet, but then there is a token. Note that late datagrams of a connection
    /// that was started in that way have a token, too, and are therefore not recognized.
    fn is_late(&mut self, now: Instant, arrival: &Arrival<'_>, incoming: &quinn_proto::Incoming) -> bool {
        !incoming.remote_address_validated()
            && self.recently_closed.had_peer(now, &arrival.source)
            && self.ids.issuer_of(arrival.bytes).is_some()
    }

    /// Returns `true` if we have derived keys for a dropped datagram, unless the header is malformed.
    fn may_have_needed_keys(&self, datagram: &[u8]) -> bool {
        PacketType::of(datagram) == Some(PacketType::Initial)
            && datagram.len() >= usize::from(QUIC_HANDSHAKE_DATAGRAM_BYTES)
            && !self.drops_attempts
            && !self.is_of_half_open(datagram)
    }

    /// Drops some replies, namely a version negotiation that follows too soon after another one (RFC 9000
    /// §17.2.1), a stateless reset if there have been too many (§10.3.3), and one to a peer that has closed
    /// its connection.
    fn limit_reply(&mut self, now: Instant, transmit: Transmit, reply: &[u8]) -> Received {
        let is_permitted = match PacketType::of(reply) {
            Some(PacketType::VersionNegotiation) => {
                let interval = Duration::from_millis(QUIC_VERSION_NEGOTIATION_INTERVAL_MS);
                let last = self.last_version_negotiation;
                let is_permitted = last.is_none_or(|last| now.saturating_duration_since(last) >= interval);
                if is_permitted {
                    self.last_version_negotiation = Some(now);
                }
                is_permitted
            }
            Some(PacketType::Short) if self.recently_closed.had_peer(now, &transmit.destination) => false,
            Some(PacketType::Short) => {
                self.resets.refill(now);
                self.resets.take(1).is_ok()
            }
            _ => true,
        };
        if is_permitted { Received::Reply(transmit) } else { Received::Dropped }
    }

    fn admit(&mut self, incoming: Incoming, reply: &mut Vec<u8>) -> Received {
        self.half_open.insert(incoming.id, HalfOpen::Waiting { datagrams: 0 });
        if self.half_open() > QUIC_HALF_OPEN_BEFORE_RETRY && !incoming.is_validated() {
            return match self.retry(incoming, reply) {
                Ok(transmit) => Received::Reply(transmit),
                Err(incoming) => Received::Incoming(*incoming),
            };
        }
        self.update_admission();
        Received::Incoming(incoming)
    }

    /// Accepts a connection. This processes its first packet and starts the TLS handshake, which takes most
    /// of a connection's CPU time. `reply` is cleared, and will contain a reply if there is an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the client's first packet is damaged or violates the protocol, or if both sides
    /// have no cryptography in common.
    pub fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        reply: &mut Vec<u8>,
    ) -> Result<Connection, AcceptError> {
        reply.clear();
        let id = incoming.id;
        self.half_open.remove(&id);
        let first_bytes = (!incoming.is_validated()).then_some(incoming.first_bytes);

        let accepted = self.quinn.accept(incoming.quinn, now, reply, None);
        let result = match accepted {
            Ok((handle, connection)) => {
                let key = ConnectionKey(handle.0);
                self.set_state(key, State::Handshaking(id));
                Ok(Connection::new(key, connection, first_bytes))
            }
            Err(error) => {
                Err(AcceptError { reply: error.response.map(Transmit::from), reason: error.cause.into() })
            }
        };

        self.update_admission();
        result
    }

    /// Refuses a connection with CONNECTION_REFUSED, which is written to `reply` after clearing it.
    pub fn refuse(&mut self, incoming: Incoming, reply: &mut Vec<u8>) -> Transmit {
        reply.clear();
        let transmit = self.quinn.refuse(incoming.quinn, reply);
        self.forget_incoming(incoming.id);
        transmit.into()
    }

    /// Asks a client to prove its address with a Retry packet (RFC 9000 §8.1.2), which is written to `reply`
    /// after clearing it.
    ///
    /// # Errors
    /// Returns the attempt if the client has already responded to a Retry packet.
    pub fn retry(&mut self, incoming: Incoming, reply: &mut Vec<u8>) -> Result<Transmit, Box<Incoming>> {
        reply.clear();
        let Incoming { quinn, id, first_bytes } = incoming;
        let transmit = self
            .quinn
            .retry(quinn, reply)
            .map_err(|error| Box::new(Incoming { quinn: error.into_incoming(), id, first_bytes }))?;
        self.forget_incoming(id);
        Ok(transmit.into())
    }

    /// Drops a connection attempt. The client will try again.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.quinn.ignore(incoming.quinn);
        self.forget_incoming(incoming.id);
    }

    fn forget_incoming(&mut self, id: ConnectionId) {
        self.half_open.remove(&id);
        self.update_admission();
    }

    /// Exchanges events between the endpoint and a connection, e.g. new connection IDs, and removes the
    /// connection if its peer has closed it. This must be called whenever the connection has changed, before
    /// its datagrams are sent.
    pub fn maintain(&mut self, now: Instant, connection: &mut Connection) {
        if !connection.is_registered {
            return;
        }

        // The handshake is complete or has failed, so the connection is not half-open any more.
        if let State::Handshaking(id) = self.state(connection.key.0)
            && !connection.is_handshaking()
        {
            self.set_state(connection.key, State::Established(id));
        }

        if connection.is_abandoned {
            self.deregister(connection);
        }
        if connection.is_closed_by_peer {
            if let State::Established(id) = self.state(connection.key.0) {
                self.recently_closed.insert(now, id, connection.validated_address());
            }
            self.deregister(connection);
        }

        while connection.is_registered
            && let Some(event) = connection.quinn.poll_endpoint_events()
        {
            if event.is_drained() {
                self.deregister(connection);
            } else if let Some(event) = self.quinn.handle_event(connection.key.to_quinn(), event) {
                connection.quinn.handle_event(event);
            }
        }
    }

    /// Drops a connection in any state without sending anything to the peer. This should be called if a
    /// method of the connection has panicked.
    pub fn remove(&mut self, mut connection: Connection) {
        if connection.is_registered {
            self.deregister(&mut connection);
        }
    }

    fn deregister(&mut self, connection: &mut Connection) {
        connection.is_registered = false;
        self.quinn.handle_event(connection.key.to_quinn(), EndpointEvent::drained());
        self.set_state(connection.key, State::Vacant);
    }

    /// Removes the state of connections that the caller does not have. This should be called if
    /// [`accept`](Self::accept) has panicked.
    pub fn recover(&mut self) {
        // The missing connection has either a vacant key or the next one.
        for key in 0..=self.states.len() {
            if self.state(key) == State::Vacant {
                self.quinn.handle_event(ConnectionHandle(key), EndpointEvent::drained());
            }
        }
    }

    /// Frees memory that is not needed any more. This should be called about once a second.
    pub fn free_unused(&mut self, now: Instant) {
        self.recently_closed.expire(now);
    }

    /// Returns the number of half-open connections, including those that are not accepted yet.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Whether a datagram has the destination connection ID that a client used to start a half-open
    /// connection. Clients use this ID until they receive our first packet, so all datagrams of a long
    /// ClientHello have it.
    pub fn is_of_half_open(&self, datagram: &[u8]) -> bool {
        !self.half_open.is_empty()
            && long_header_destination(datagram).is_some_and(|id| self.half_open.contains_key(&id))
    }

    /// Whether we have as many half-open connections as we allow. In this state, Initial packets of
    /// any others are dropped.
    pub fn is_saturated(&self) -> bool {
        self.half_open() >= QUIC_HALF_OPEN_MAX
    }

    /// Returns the number of accepted connections that are not drained yet.
    pub fn connections(&self) -> usize {
        self.quinn.open_connections()
    }

    fn state(&self, key: usize) -> State {
        self.states.get(key).copied().unwrap_or(State::Vacant)
    }

    fn set_state(&mut self, key: ConnectionKey, state: State) {
        if self.states.len() <= key.0 {
            self.states.resize(key.0 + 1, State::Vacant);
        }
        let previous = std::mem::replace(&mut self.states[key.0], state);
        if let State::Handshaking(id) = previous {
            self.half_open.remove(&id);
        }
        if let State::Handshaking(id) = state {
            self.half_open.insert(id, HalfOpen::Accepted);
        }
        self.update_admission();
    }

    fn update_admission(&mut self) {
        let is_saturated = self.is_saturated();
        if std::mem::replace(&mut self.drops_attempts, is_saturated) != is_saturated {
            let config = if is_saturated { &self.configs.saturated } else { &self.configs.open };
            self.quinn.set_server_config(Some(config.clone()));
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("connections", &self.connections())
            .field("half_open", &self.half_open())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
