//! Requests in early data (0-RTT) that wait until the client's address is known because the server writes a log.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use cannery_testkit::http3::{HEADERS, decode, field_section, frame, take_frame};
use cannery_testkit::tls::ClientOptions;
use cannery_transport::quic::EarlyData;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamEvent, StreamId, VarInt,
};

use super::SERVER;
use crate::config::{self, AccessLog, LogFormat, LogTarget};
use crate::observe::{LogFile, LogWriter, Observer, Status};
use crate::sandbox::Sandbox;
use crate::worker::stepper::Http3Stepper;

/// Exchanges of datagrams after which a handshake is done, and a response has arrived.
const EXCHANGES: usize = 4;

/// A client that remembers its session, but no token: it may have forged its address.
struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    events: Vec<Event>,
    now: Instant,
}

impl Client {
    fn connect(tls: &Arc<QuicClientConfig>, now: Instant) -> Client {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        // Each configuration has a store of its own for tokens.
        let config = ClientConfig::new(Arc::clone(tls) as _);
        let (handle, connection) = endpoint.connect(now, config, SERVER, "localhost").unwrap();
        Client { endpoint, handle, connection, events: Vec::new(), now }
    }

    /// Opens a request stream and sends these bytes in datagrams of their own.
    fn request(&mut self, bytes: &[u8], stepper: &mut Http3Stepper) -> StreamId {
        let stream = self.connection.streams().open(Dir::Bi).unwrap();
        self.connection.send_stream(stream).write(bytes).unwrap();
        self.send(stepper);
        stream
    }

    /// Sends what the client has to send. The server's answer waits.
    fn send(&mut self, stepper: &mut Http3Stepper) {
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(self.now, 1, &mut buffer) {
            datagrams.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
        stepper.step(datagrams);
        while stepper.is_busy() {
            stepper.step(Vec::new());
        }
    }

    /// Takes the server's answers, and answers in turn.
    fn exchange(&mut self, stepper: &mut Http3Stepper) {
        for _ in 0..EXCHANGES {
            for datagram in stepper.take_sent() {
                let bytes = BytesMut::from(&datagram[..]);
                let event = self.endpoint.handle(self.now, SERVER, None, None, bytes, &mut Vec::new());
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
            self.events.extend(std::iter::from_fn(|| self.connection.poll()));
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(event);
                }
            }
            self.send(stepper);
        }
    }

    /// Returns the status of a response.
    fn status(&mut self, stream: StreamId) -> Option<String> {
        let mut response = Vec::new();
        let mut receive = self.connection.recv_stream(stream);
        let mut chunks = receive.read(true).ok()?;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            response.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
        let (kind, fields) = take_frame(&mut &response[..])?;
        assert_eq!(kind, HEADERS);
        decode(fields).into_iter().find(|(name, _)| name == ":status").map(|(_, status)| status)
    }
}

/// Creates a server that accepts early data and writes a log, and a TLS client that has one of its
/// sessions.
fn server_with_session() -> (Http3Stepper, Arc<QuicClientConfig>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let target = LogTarget::File(file.path().to_owned());
    let log = AccessLog::new(target, LogFormat::Combined);
    let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
    let log = LogFile::open(&log).unwrap();
    let log = log.start(1, status, config::NoticeHandler::ignore(), &Sandbox::default()).unwrap();
    let observer = Observer::new(None, Some(LogWriter::buffer(&log)));

    let content = config::Content::dummy(b"content");
    let mut stepper = Http3Stepper::with(content, EarlyData::Accepted, observer).unwrap();
    let options = ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data();
    let tls = Arc::new(QuicClientConfig::try_from(Arc::new(options.build())).unwrap());
    let mut first = Client::connect(&tls, stepper.now());
    first.send(&mut stepper);
    first.exchange(&mut stepper);
    assert!(!first.connection.is_handshaking());
    (stepper, tls)
}

fn request() -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/"), ("x", "y")];
    frame(HEADERS, &field_section(&fields))
}

#[test]
fn early_request_in_two_datagrams_is_answered() {
    let (mut stepper, tls) = server_with_session();
    let request = request();
    for split in [1, request.len() / 2, request.len() - 1, request.len()] {
        let mut client = Client::connect(&tls, stepper.now());
        assert!(client.connection.has_0rtt(), "the client has a session");
        let (start, rest) = request.split_at(split);
        let stream = client.request(start, &mut stepper);
        client.connection.send_stream(stream).write(rest).unwrap();
        client.connection.send_stream(stream).finish().unwrap();
        client.send(&mut stepper);
        assert!(client.connection.is_handshaking());

        client.exchange(&mut stepper);
        assert!(client.connection.accepted_0rtt());
        assert_eq!(client.status(stream).as_deref(), Some("200"), "after {split} bytes");
        let is_lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        assert!(!client.events.iter().any(is_lost), "{:?}", client.events);
    }
}

/// The rest of the request should also be read, otherwise HTTP/3 would wait for it and close the
/// connection.
#[test]
fn early_request_may_be_cancelled() {
    let (mut stepper, tls) = server_with_session();
    let mut client = Client::connect(&tls, stepper.now());
    let request = request();
    let cancelled = client.request(&request[..10], &mut stepper);
    client.connection.recv_stream(cancelled).stop(VarInt::from_u32(0x10c)).unwrap();
    client.send(&mut stepper);
    client.connection.send_stream(cancelled).write(&request[10..]).unwrap();
    client.connection.send_stream(cancelled).finish().unwrap();
    client.send(&mut stepper);
    let other = client.request(&request, &mut stepper);
    client.connection.send_stream(other).finish().unwrap();
    client.exchange(&mut stepper);

    assert_eq!(client.status(other).as_deref(), Some("200"));
    let is_finished =
        |event: &Event| matches!(event, Event::Stream(StreamEvent::Finished { id }) if *id == cancelled);
    assert!(client.events.iter().any(is_finished), "{:?}", client.events);
    let is_stopped =
        |event: &Event| matches!(event, Event::Stream(StreamEvent::Stopped { id, .. }) if *id == cancelled);
    assert!(!client.events.iter().any(is_stopped), "{:?}", client.events);
}
