//! A simulated network between a server and its clients, with a virtual clock.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use cannery_testkit::tls::ClientOptions;
use cannery_transport::quic::{
    AcceptError, Arrival, Connection, Context, EarlyData, Endpoint, Event, Generation, Incoming, Received,
    Transmit,
};
use cannery_transport::{Certificates, Protocol, Seed, SelfSigned, Settings, Version};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ConnectionHandle, DatagramEvent, EcnCodepoint};
use rustls::ClientConfig;

/// The addresses of server and client.
pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);
pub(crate) const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 50_000);

/// The one-way delay of the network.
const DELAY: Duration = Duration::from_millis(10);

/// The datagrams of a segment batch.
const SEGMENTS_MAX: NonZeroUsize = NonZeroUsize::new(10).unwrap();

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the TLS context of a server with a self-signed certificate.
pub(crate) fn tls_context(seed: &Seed) -> cannery_transport::Context {
    let now = SystemTime::now();
    cannery_transport::Context::new(Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now).unwrap(),
        seed: Some(seed.clone()),
        versions: vec![Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    })
    .unwrap()
}

/// Returns the context of a server without a server ID.
pub(crate) fn context(seed: &Seed) -> Context {
    Context::new(&tls_context(seed), None, EarlyData::Refused).unwrap()
}

pub(crate) fn random_seed() -> Seed {
    Seed::generate(SystemTime::now()).unwrap()
}

/// Returns a TLS configuration of a client that resumes sessions.
pub(crate) fn tls_client(protocols: &[&str]) -> Arc<ClientConfig> {
    Arc::new(ClientOptions::default().tls13().protocols(protocols).resumption(8).build())
}

/// Returns the configuration of a client.
pub(crate) fn client_config(tls: &Arc<ClientConfig>) -> quinn_proto::ClientConfig {
    quinn_proto::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls.clone()).unwrap()))
}

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) ecn: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn is_for_server(&self) -> bool {
        self.destination == SERVER
    }
}

/// The treatment of a datagram by the network.
pub(crate) enum Fate {
    Deliver,
    Drop,
    Delay(Duration),
}

/// Decides the fate of a datagram; it may change it.
type Path = Box<dyn FnMut(&mut Packet) -> Fate>;

/// A connection with the events that it has reported.
pub(crate) struct Served {
    pub(crate) connection: Connection,
    pub(crate) events: Vec<Event>,
}

/// Whether a server accepts connections at once.
#[derive(PartialEq)]
pub(crate) enum Acceptance {
    Immediate,
    Held,
}

/// The server's endpoint and its connections by key.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) connections: BTreeMap<usize, Served>,
    pub(crate) acceptance: Acceptance,
    pub(crate) held: Vec<Incoming>,
    pub(crate) failures: Vec<AcceptError>,
    pub(crate) replies: Vec<Vec<u8>>,
    /// The events of connections that have ended.
    pub(crate) ended: Vec<Vec<Event>>,
    pub(crate) accepted: usize,
}

impl Server {
    pub(crate) fn new(context: &Context) -> Self {
        Self::with_endpoint(Endpoint::new(context, 0, Generation::new(0), [7; 32]))
    }

    pub(crate) fn with_endpoint(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connections: BTreeMap::new(),
            acceptance: Acceptance::Immediate,
            held: Vec::new(),
            failures: Vec::new(),
            replies: Vec::new(),
            ended: Vec::new(),
            accepted: 0,
        }
    }

    /// Processes a datagram and appends the reply.
    pub(crate) fn receive(&mut self, now: Instant, packet: &Packet, sent: &mut Vec<Packet>) {
        let mut reply = Vec::new();
        let arrival = Arrival {
            source: packet.source,
            destination: Some(packet.destination.ip()),
            ecn: packet.ecn,
            bytes: &packet.bytes,
        };
        match self.endpoint.receive(now, &arrival, &mut reply) {
            Received::Connection(key, event) => {
                if let Some(served) = self.connections.get_mut(&key.index()) {
                    served.connection.receive(event);
                }
            }
            Received::Incoming(incoming) if self.acceptance == Acceptance::Held => self.held.push(incoming),
            Received::Incoming(incoming) => self.accept(now, incoming, sent),
            Received::Reply(transmit) => self.reply(transmit, &reply, sent),
            Received::Dropped | Received::Invalid => {}
        }
    }

    pub(crate) fn accept(&mut self, now: Instant, incoming: Incoming, sent: &mut Vec<Packet>) {
        let mut reply = Vec::new();
        match self.endpoint.accept(now, incoming, &mut reply) {
            Ok(connection) => {
                self.accepted += 1;
                let key = connection.key().index();
                let served = Served { connection, events: Vec::new() };
                assert!(self.connections.insert(key, served).is_none(), "a key is used once");
            }
            Err(error) => {
                if let Some(transmit) = error.reply {
                    self.reply(transmit, &reply, sent);
                }
                self.failures.push(error);
            }
        }
    }

    fn reply(&mut self, transmit: Transmit, reply: &[u8], sent: &mut Vec<Packet>) {
        self.replies.push(reply.to_vec());
        sent.extend(packets(&transmit, reply));
    }

    /// Processes timeouts and events, appending the datagrams to send.
    pub(crate) fn advance(&mut self, now: Instant, sent: &mut Vec<Packet>) {
        let mut buffer = Vec::new();
        for served in self.connections.values_mut() {
            if served.connection.timeout().is_some_and(|timeout| timeout <= now) {
                served.connection.handle_timeout(now);
            }
            while let Some(event) = served.connection.next_event() {
                served.events.push(event);
            }
            self.endpoint.maintain(now, &mut served.connection);
            while let Some(transmit) = served.connection.poll_transmit(now, SEGMENTS_MAX, &mut buffer) {
                assert_eq!(transmit.source, Some(SERVER.ip()));
                sent.extend(packets(&transmit, &buffer));
            }
        }
        let drained = self.connections.extract_if(.., |_, served| served.connection.is_drained());
        self.ended.extend(drained.map(|(_, served)| served.events));
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connections.values_mut().filter_map(|served| served.connection.timeout()).min()
    }

    /// Returns the only connection.
    pub(crate) fn only(&mut self) -> &mut Served {
        assert_eq!(self.connections.len(), 1);
        self.connections.values_mut().next().unwrap()
    }
}

/// Splits a segment batch of a connection into datagrams.
fn packets(transmit: &Transmit, buffer: &[u8]) -> Vec<Packet> {
    assert_eq!(transmit.bytes, buffer.len());
    let packet = |bytes: &[u8]| Packet {
        source: SERVER,
        destination: transmit.destination,
        ecn: transmit.ecn,
        bytes: bytes.to_vec(),
    };
    buffer.chunks(transmit.segment_bytes.unwrap_or(buffer.len()).max(1)).map(packet).collect()
}

/// A connection of a client with the events that it has reported.
pub(crate) struct Remote {
    pub(crate) connection: quinn_proto::Connection,
    pub(crate) events: Vec<quinn_proto::Event>,
}

impl Remote {
    pub(crate) fn is_established(&self) -> bool {
        self.events.iter().any(|event| matches!(event, quinn_proto::Event::Connected))
    }

    /// Returns why the connection was lost.
    pub(crate) fn loss(&self) -> Option<&quinn_proto::ConnectionError> {
        self.events.iter().find_map(|event| match event {
            quinn_proto::Event::ConnectionLost { reason } => Some(reason),
            _ => None,
        })
    }
}

/// A client's endpoint and its connections.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: quinn_proto::Endpoint,
    pub(crate) connections: BTreeMap<ConnectionHandle, Remote>,
}

impl Client {
    pub(crate) fn new() -> Self {
        let mut config = quinn_proto::EndpointConfig::default();
        config.rng_seed(Some([1; 32]));
        Self {
            address: CLIENT,
            endpoint: quinn_proto::Endpoint::new(Arc::new(config), None, true, None),
            connections: BTreeMap::new(),
        }
    }

    pub(crate) fn connect(&mut self, now: Instant, config: quinn_proto::ClientConfig) -> ConnectionHandle {
        let (handle, connection) = self.endpoint.connect(now, config, SERVER, "localhost").unwrap();
        self.connections.insert(handle, Remote { connection, events: Vec::new() });
        handle
    }

    fn receive(&mut self, now: Instant, packet: &Packet) {
        let event = self.endpoint.handle(
            now,
            packet.source,
            None,
            EcnCodepoint::from_bits(packet.ecn),
            BytesMut::from(&packet.bytes[..]),
            &mut Vec::new(),
        );
        if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event
            && let Some(remote) = self.connections.get_mut(&handle)
        {
            remote.connection.handle_event(event);
        }
    }

    fn advance(&mut self, now: Instant, sent: &mut Vec<Packet>) {
        let mut buffer = Vec::new();
        for (handle, remote) in &mut self.connections {
            if remote.connection.poll_timeout().is_some_and(|timeout| timeout <= now) {
                remote.connection.handle_timeout(now);
            }

            while let Some(event) = remote.connection.poll() {
                remote.events.push(event);
            }
            while let Some(event) = remote.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    remote.connection.handle_event(event);
                }
            }

            while remote.connection.poll_transmit(now, 1, &mut buffer).is_some() {
                sent.push(Packet {
                    source: self.address,
                    destination: SERVER,
                    ecn: 2,
                    bytes: std::mem::take(&mut buffer),
                });
            }
        }
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connections.values_mut().filter_map(|remote| remote.connection.poll_timeout()).min()
    }
}

/// A server, a client, and the network between them.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) path: Path,
    in_flight: Vec<(Instant, Packet)>,
    /// Every datagram that was sent.
    pub(crate) sent: Vec<Packet>,
}

impl Network {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            now: *START,
            server,
            client: Client::new(),
            path: Box::new(|_| Fate::Deliver),
            in_flight: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Returns a network with a server and an established connection of the client.
    pub(crate) fn connected() -> (Self, ConnectionHandle) {
        let mut network = Self::new(Server::new(&context(&random_seed())));
        let handle = network.connect(client_config(&tls_client(&["h3"])));
        network.run(Duration::from_secs(1));
        assert!(network.remote(handle).is_established());
        assert!(network.server.only().events.contains(&Event::Established));
        (network, handle)
    }

    pub(crate) fn connect(&mut self, config: quinn_proto::ClientConfig) -> ConnectionHandle {
        self.client.connect(self.now, config)
    }

    pub(crate) fn remote(&mut self, handle: ConnectionHandle) -> &mut Remote {
        self.client.connections.get_mut(&handle).unwrap()
    }

    /// Sends a datagram.
    pub(crate) fn send(&mut self, mut packet: Packet) {
        self.sent.push(packet.clone());
        let delay = match (self.path)(&mut packet) {
            Fate::Deliver => DELAY,
            Fate::Drop => return,
            Fate::Delay(delay) => delay,
        };
        self.in_flight.push((self.now + delay, packet));
    }

    /// Removes those datagrams that would arrive at the server within five milliseconds and are selected.
    pub(crate) fn intercept(&mut self, mut select: impl FnMut(&Packet) -> bool) {
        let soon = self.now + Duration::from_millis(5);
        self.in_flight
            .retain(|(arrival, packet)| *arrival > soon || !packet.is_for_server() || !select(packet));
    }

    /// Accepts the connections that the server holds.
    pub(crate) fn accept_held(&mut self) {
        let mut sent = Vec::new();
        for incoming in std::mem::take(&mut self.server.held) {
            self.server.accept(self.now, incoming, &mut sent);
        }
        sent.into_iter().for_each(|packet| self.send(packet));
    }

    /// Runs for `duration`.
    pub(crate) fn run(&mut self, duration: Duration) {
        self.run_with(duration, |_| {});
    }

    /// Runs for `duration`, calling `step` at each moment at which something happens.
    pub(crate) fn run_with(&mut self, duration: Duration, mut step: impl FnMut(&mut Self)) {
        let end = self.now + duration;
        loop {
            step(self);
            self.turn();
            let arrivals = self.in_flight.iter().map(|(arrival, _)| *arrival);
            let timeouts = [self.server.timeout(), self.client.timeout()].into_iter().flatten();
            match arrivals.chain(timeouts).min() {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => break,
            }
        }
        self.now = end;
    }

    /// Delivers the datagrams that have arrived and lets both sides send.
    fn turn(&mut self) {
        let now = self.now;
        let mut sent = Vec::new();
        let (arrived, later) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|(arrival, _)| *arrival <= now);
        self.in_flight = later;
        let mut arrived: Vec<_> = arrived;
        arrived.sort_by_key(|(arrival, _)| *arrival);
        for (_, packet) in arrived {
            if packet.is_for_server() {
                self.server.receive(now, &packet, &mut sent);
            } else if packet.destination == self.client.address {
                self.client.receive(now, &packet);
            }
        }

        self.server.advance(now, &mut sent);
        self.client.advance(now, &mut sent);
        sent.into_iter().for_each(|packet| self.send(packet));
    }
}
