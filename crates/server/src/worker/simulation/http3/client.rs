//! A client of the simulated network, which sends requests on a connection and checks their
//! responses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use cannery_eventloop::simulated::{DatagramPeer, Random};
use cannery_eventloop::{Datagram, Ecn, SegmentBatch};
use cannery_testkit::http3::{
    CONTROL_STREAM, DATA, HEADERS, SETTINGS, decode, field_section, frame, take_frame, varint,
};
use cannery_testkit::tls::ClientOptions;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig,
};

use super::SERVER;

/// The most datagrams of a segment batch.
const SEGMENTS_MAX: usize = 8;

/// Maximum time for which the client is silent.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The code of a request that was not processed (RFC 9114 §8.1).
const REQUEST_REJECTED: u64 = 0x10b;

/// The paths of the site, with the lengths of their contents.
const PATHS: [(&str, usize); 3] = [("small", 13), ("middle", 9000), ("large", 80_000)];

static CONFIG: LazyLock<ClientConfig> = LazyLock::new(|| {
    let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build());
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("the client offers TLS 1.3")));
    // The server cannot know about a change of the port until the client sends something from the new one, so
    // it must do so (as browsers do).
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    config.transport_config(Arc::new(transport));
    config
});

/// A request that was sent.
struct Request {
    path: usize,
    is_head: bool,
    received: Vec<u8>,
}

/// The result of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every request has its response.
    Complete,
    /// The server has refused the connection or a request because it stops.
    Refused,
    /// The connection attempt was not answered. This happens when the server is stopping: it ignores
    /// the attempt and another one can answer the next.
    Unanswered,
    /// The connection was lost.
    Lost(String),
    /// A response is none of those that the releases have.
    Wrong(String),
    /// Responses are missing.
    Incomplete,
}

/// A client that vanishes after its first datagrams.
pub(super) struct Vanishing {
    client: Client,
    sends: bool,
    is_answered: bool,
}

impl Vanishing {
    pub(super) fn new(random: &mut Random) -> Vanishing {
        Vanishing { client: Client::new(random), sends: true, is_answered: false }
    }

    /// Returns `true` once the server has sent a datagram.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }
}

impl DatagramPeer for Vanishing {
    fn receive(&mut self, _: Instant, _: Datagram<'_>) {
        self.is_answered = true;
    }

    fn transmit(&mut self, now: Instant) -> Option<SegmentBatch<'_>> {
        std::mem::take(&mut self.sends).then(|| self.client.transmit(now)).flatten()
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}
}

/// A client with one connection.
pub(super) struct Client {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Requests that were not sent, each with its path and whether it is for the head alone.
    pending_requests: VecDeque<(usize, bool)>,
    requests: BTreeMap<StreamId, Request>,
    /// Whether the server has completed its part of the handshake.
    is_connected: bool,
    /// The number of responses that were received.
    responses: usize,
    outcome: Option<Outcome>,
    /// The timeout of the connection, as of the last transmission.
    timeout: Option<Instant>,
    buffer: Vec<u8>,
}

impl Client {
    /// Creates a client that sends up to 40 requests.
    pub(super) fn new(random: &mut Random) -> Client {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&random.number().to_le_bytes());
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed));
        let requests = (0..1 + random.below(40)).map(|_| (random.below(PATHS.len()), random.once_in(5)));
        Client {
            endpoint: Endpoint::new(Arc::new(config), None, true, None),
            connection: None,
            pending_requests: requests.collect(),
            requests: BTreeMap::new(),
            is_connected: false,
            responses: 0,
            outcome: None,
            timeout: None,
            buffer: Vec::new(),
        }
    }

    /// Returns `true` if the client sends and receives nothing more.
    pub(super) fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns `true` once the handshake is confirmed: the server has answered a request.
    pub(super) fn is_confirmed(&self) -> bool {
        self.responses > 0
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.clone().unwrap_or(Outcome::Incomplete)
    }

    fn end(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
    }

    /// Handles the events of the connection before sending requests.
    fn run(&mut self, now: Instant) {
        let Some((handle, mut connection)) = self.connection.take() else { return };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    let control = connection.streams().open(Dir::Uni).expect("servers allow three streams");
                    let start = [varint(CONTROL_STREAM), frame(SETTINGS, &[])].concat();
                    connection.send_stream(control).write(&start).expect("the stream is empty");
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(&mut connection, id),
                Event::ConnectionLost { reason } => self.lose(&reason),
                _ => {}
            }
        }

        if !connection.is_handshaking() && !connection.is_closed() {
            self.send_requests(&mut connection);
            if self.requests.is_empty() && self.pending_requests.is_empty() {
                connection.close(now, 0x100_u32.into(), "".into());
                self.end(Outcome::Complete);
            }
        }

        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        self.connection = Some((handle, connection));
    }

    fn lose(&mut self, reason: &ConnectionError) {
        self.end(match reason {
            // The server closes idle connections while it stops.
            ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => Outcome::Refused,
            ConnectionError::TimedOut if !self.is_connected => Outcome::Unanswered,
            reason => Outcome::Lost(reason.to_string()),
        });
    }

    fn send_requests(&mut self, connection: &mut Connection) {
        while let Some((path, is_head)) = self.pending_requests.front().copied() {
            let Some(id) = connection.streams().open(Dir::Bi) else { return };
            self.pending_requests.pop_front();
            let target = format!("/{}", PATHS[path].0);
            let fields = [
                (":method", if is_head { "HEAD" } else { "GET" }),
                (":scheme", "https"),
                (":authority", "localhost"),
                (":path", &target),
            ];
            let mut stream = connection.send_stream(id);
            stream.write(&frame(HEADERS, &field_section(&fields))).expect("the stream is empty");
            stream.finish().expect("the stream is open");
            self.requests.insert(id, Request { path, is_head, received: Vec::new() });
        }
    }

    fn read(&mut self, connection: &mut Connection, id: StreamId) {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };

        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Some(request) = self.requests.get_mut(&id) {
                        request.received.extend_from_slice(&chunk.bytes);
                    }
                }
                outcome => break outcome,
            }
        };
        let _ = chunks.finalize();

        match outcome {
            Err(ReadError::Blocked) => {}
            Err(ReadError::Reset(code)) if code.into_inner() == REQUEST_REJECTED => {
                self.end(Outcome::Refused);
            }
            Err(ReadError::Reset(code)) => self.end(Outcome::Wrong(format!("reset with {code}"))),
            Ok(_) => {
                self.responses += 1;
                if let Some(request) = self.requests.remove(&id)
                    && let Err(fault) = check(&request)
                {
                    self.end(Outcome::Wrong(fault));
                }
            }
        }
    }
}

/// Checks that a response is that of one release.
///
/// # Errors
/// Returns the difference.
fn check(request: &Request) -> Result<(), String> {
    let (name, length) = PATHS[request.path];
    let mut rest = &request.received[..];
    let mut content = Vec::new();
    let mut fields = None;
    while let Some((kind, payload)) = take_frame(&mut rest) {
        match kind {
            HEADERS => fields = Some(decode(payload)),
            DATA => content.extend_from_slice(payload),
            _ => {}
        }
    }

    let fields = fields.ok_or("no fields")?;
    let field = |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    if !rest.is_empty()
        || field(":status") != Some("200")
        || field("content-length") != Some(&length.to_string())
    {
        return Err(format!("{name}: {fields:?}, {} more bytes", rest.len()));
    }
    let is_of = |release: &str| {
        let line = format!("{release} {name} identity\n");
        content.iter().copied().eq(line.bytes().cycle().take(length))
    };
    let is_expected = if request.is_head { content.is_empty() } else { is_of("first") || is_of("second") };
    if is_expected { Ok(()) } else { Err(format!("{name}: {} bytes of content", content.len())) }
}

impl DatagramPeer for Client {
    fn receive(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.buffer.clear();
        let ecn = datagram.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let bytes = BytesMut::from(&*datagram.bytes);
        let event = self.endpoint.handle(now, datagram.source, None, ecn, bytes, &mut self.buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event
            && let Some((_, connection)) = &mut self.connection
        {
            connection.handle_event(event);
        }
        self.run(now);
    }

    fn transmit(&mut self, now: Instant) -> Option<SegmentBatch<'_>> {
        if self.connection.is_none() && self.outcome.is_none() {
            let connected = self.endpoint.connect(now, CONFIG.clone(), SERVER, "localhost");
            self.connection = Some(connected.expect("the configuration is valid"));
        }
        let (_, connection) = self.connection.as_mut()?;
        self.buffer.clear();
        let transmit = connection.poll_transmit(now, SEGMENTS_MAX, &mut self.buffer);
        self.timeout = connection.poll_timeout();
        let transmit = transmit?;
        Some(SegmentBatch {
            destination: transmit.destination,
            source: None,
            ecn: transmit.ecn.and_then(|ecn| Ecn::from_traffic_class(ecn as u8)),
            bytes: &self.buffer[..transmit.size],
            segment_bytes: transmit.segment_size,
        })
    }

    fn timeout(&self) -> Option<Instant> {
        self.timeout.filter(|_| self.outcome.is_none())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.run(now);
    }
}
