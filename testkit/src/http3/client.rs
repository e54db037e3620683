//! HTTP/3 client over UDP. It blocks the calling thread and does nothing between calls.
//!
//! This client has no dynamic table for QPACK and checks each response strictly. Tests may also use the streams directly to send
//! bytes that no correct client would send.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, Side, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;

use super::forging::{Forgery, Level};
use super::frame::{
    CONTROL_STREAM, DATA, DECODER_STREAM, ENCODER_STREAM, GOAWAY, HEADERS, PUSH_PROMISE, SETTINGS, frame,
    take_frame, take_varint, varint,
};
use super::qpack::{decode, field_section};
use crate::tls::ClientOptions;
use crate::{Ended, Response};

/// Maximum length of a datagram that is received, in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// The length of datagrams with forged frames, in bytes.
const FORGED_DATAGRAM_BYTES: u16 = 1452;

/// Interval for checking conditions that do not depend on datagrams.
const CONDITION_INTERVAL: Duration = Duration::from_millis(20);

// Error codes (RFC 9114, section 8.1).
const NO_ERROR: u32 = 0x100;
const REQUEST_REJECTED: u32 = 0x10b;

/// Returns the first datagrams of this number of clients: Initial packets.
///
/// # Panics
///
/// Panics if no socket can be opened.
#[must_use]
pub fn initial_datagrams(server: SocketAddr, clients: usize) -> Vec<Vec<u8>> {
    let options = Options::default();
    let initial = |_| {
        let mut client = Client::start(server, &options).expect("a socket");
        let mut datagram = Vec::new();
        let _ = client.connection.poll_transmit(Instant::now(), 1, &mut datagram).expect("a datagram");
        datagram
    };
    (0..clients).map(initial).collect()
}

/// Returns the first datagrams of this number of clients, with these frames instead of a ClientHello.
///
/// # Panics
///
/// Panics if no socket can be opened.
#[must_use]
pub fn forged_initial_datagrams(server: SocketAddr, clients: usize, frames: &[u8]) -> Vec<Vec<u8>> {
    let forgery = Forgery::default();
    let options = Options { forgery: Some(forgery.clone()), ..Options::default() };
    let initial = |_| {
        let mut client = Client::start(server, &options).expect("a socket");
        let mut datagram = Vec::new();
        forgery.push(Level::Initial, frames.to_vec());
        let _ = client.connection.poll_transmit(Instant::now(), 1, &mut datagram).expect("a datagram");
        datagram
    };
    (0..clients).map(initial).collect()
}

/// Properties of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// The TLS client, which must offer the protocol `h3`.
    pub tls: Arc<rustls::ClientConfig>,
    /// The name of the server in TLS.
    pub server_name: String,
    /// Limit for each operation.
    pub timeout: Duration,
    /// Number of bytes the server may send on a stream before the client reads them.
    pub stream_window: u32,
    /// Number of bytes the server may send on all streams before the client reads them.
    pub window: u32,
    /// Frames that packets carry instead of their own. If given, all packets have full length.
    pub forgery: Option<Forgery>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tls: Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build()),
            server_name: "localhost".to_owned(),
            timeout: Duration::from_secs(20),
            stream_window: 1 << 20,
            window: u32::MAX,
            forgery: None,
        }
    }
}

/// A connection to a server.
pub struct Client {
    socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    timeout: Duration,
    /// The streams on which the client may receive.
    streams: BTreeMap<StreamId, Received>,
    is_established: bool,
    /// The reason for which the connection was lost.
    lost: Option<ConnectionError>,
}

/// Data of a stream.
#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    progress: Progress,
}

/// Progress of the receiving part of a stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Open,
    Finished,
    /// Reset by the server with this error code.
    Reset(u64),
}

impl Client {
    /// Connects to a server with the default options.
    ///
    /// # Errors
    ///
    /// Fails if the handshake fails.
    pub fn connect(server: SocketAddr) -> Result<Client, Ended> {
        Client::connect_with(server, &Options::default())
    }

    /// Connects to a server and begins HTTP/3 with SETTINGS.
    ///
    /// # Errors
    ///
    /// Fails if the handshake fails.
    pub fn connect_with(server: SocketAddr, options: &Options) -> Result<Client, Ended> {
        let mut client = Client::handshake(server, options)?;
        // The server may close the connection right after the handshake.
        let opened = client.try_open_stream(Dir::Uni);
        let control = opened.ok_or_else(|| Ended::Closed(io::ErrorKind::ConnectionAborted.into()))?;
        client.send(control, &[varint(CONTROL_STREAM), frame(SETTINGS, &[])].concat());
        Ok(client)
    }

    /// Connects to a server, without HTTP/3.
    ///
    /// # Errors
    ///
    /// Fails if the handshake fails.
    pub fn handshake(server: SocketAddr, options: &Options) -> Result<Client, Ended> {
        let mut client = Client::start(server, options)?;
        client.run_until(|client| client.is_established)?;
        Ok(client)
    }

    /// Begins a connection to a server by resuming an earlier session, with HTTP/3 in early data (0-RTT).
    ///
    /// # Errors
    ///
    /// Fails if no socket can be opened.
    ///
    /// # Panics
    ///
    /// Panics if there is no session that permits early data.
    pub fn connect_early(server: SocketAddr, options: &Options) -> Result<Client, Ended> {
        let mut client = Client::start(server, options)?;
        assert!(client.connection.has_0rtt(), "no session");
        let control = client.open_stream(Dir::Uni);
        client.send(control, &[varint(CONTROL_STREAM), frame(SETTINGS, &[])].concat());
        Ok(client)
    }

    /// Returns `true` if the server has accepted early data.
    #[must_use]
    pub fn is_early_data_accepted(&self) -> bool {
        self.connection.accepted_0rtt()
    }

    /// Begins a connection, without waiting for the server.
    fn start(server: SocketAddr, options: &Options) -> Result<Client, Ended> {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(options.stream_window.into());
        transport.receive_window(options.window.into());
        let tls = QuicClientConfig::try_from(Arc::clone(&options.tls)).expect("the client offers TLS 1.3");
        let tls: Arc<dyn quinn_proto::crypto::ClientConfig> = Arc::new(tls);
        let mut config = ClientConfig::new(match &options.forgery {
            Some(forgery) => {
                transport.pad_to_mtu(true).initial_mtu(FORGED_DATAGRAM_BYTES);
                forgery.wrap(tls)
            }
            None => tls,
        });
        config.transport_config(Arc::new(transport));

        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, server, &options.server_name).unwrap();
        let local = if server.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        Ok(Client {
            socket: UdpSocket::bind((local, 0))?,
            server,
            endpoint,
            handle,
            connection,
            timeout: options.timeout,
            streams: BTreeMap::new(),
            is_established: false,
            lost: None,
        })
    }

    /// Sends a request without content and reads its response.
    ///
    /// # Errors
    ///
    /// Fails if the server resets the stream or ends the connection first.
    pub fn request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> Result<Response, Ended> {
        let stream = self.send_request(fields)?;
        let method = fields.iter().find(|(name, _)| name.as_ref() == ":method");
        self.receive(stream, method.map_or("GET", |(_, method)| method.as_ref()))
    }

    /// Sends a request with content, as fast as the server's windows allow. Returns its stream.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub fn send_request_with_content<N: AsRef<str>>(
        &mut self,
        fields: &[(N, N)],
        content: &[u8],
    ) -> Result<StreamId, Ended> {
        let stream = self.begin_request(fields);
        self.send_content(stream, content)?;
        self.finish(stream);
        Ok(stream)
    }

    /// Sends content of a request as fast as the server's windows allow. More may follow.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub fn send_content(&mut self, stream: StreamId, content: &[u8]) -> Result<(), Ended> {
        let framed = if content.is_empty() { Vec::new() } else { frame(DATA, content) };
        let mut rest = Bytes::from(framed);
        self.run_until(|client| {
            // The server may want no more of it.
            match client.connection.send_stream(stream).write(&rest) {
                Ok(bytes) => rest = rest.slice(bytes..),
                Err(quinn_proto::WriteError::Blocked) => {}
                Err(_) => rest = Bytes::new(),
            }
            rest.is_empty()
        })
    }

    /// Sends a request without content. Returns its stream.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub fn send_request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> Result<StreamId, Ended> {
        // Nothing should be sent before the request, so that early data leaves together with the first message of the handshake.
        let mut opened = self.connection.streams().open(Dir::Bi);
        if opened.is_none() {
            // The server does not allow further streams until earlier ones are done.
            self.run_until(|client| {
                opened = client.connection.streams().open(Dir::Bi);
                opened.is_some()
            })?;
        }
        let stream = opened.expect("the condition was met");
        self.streams.insert(stream, Received::default());
        self.send(stream, &frame(HEADERS, &field_section(fields)));
        self.finish(stream);
        Ok(stream)
    }

    /// Reads the response to a request with this method on a stream, to its end.
    ///
    /// # Errors
    ///
    /// Fails if the server resets the stream or ends the connection first.
    pub fn receive(&mut self, stream: StreamId, method: &str) -> Result<Response, Ended> {
        let bytes = self.receive_bytes(stream)?;
        Ok(parse_response(&bytes, method == "HEAD"))
    }

    /// Reads the frames of a response on a stream, to its end.
    ///
    /// # Errors
    ///
    /// Fails if the server resets the stream or ends the connection first.
    pub fn receive_bytes(&mut self, stream: StreamId) -> Result<Vec<u8>, Ended> {
        let completed = self.run_until(|client| client.streams[&stream].progress != Progress::Open);
        let received = self.streams.remove(&stream).expect("the stream of a request");
        if let Err(ended) = completed {
            let is_unprocessed = self.goaway().is_some_and(|first| stream_number(stream) >= first);
            return Err(if is_unprocessed { Ended::GoneAway(NO_ERROR) } else { ended });
        }
        if let Progress::Reset(code) = received.progress {
            return Err(match u32::try_from(code).unwrap() {
                REQUEST_REJECTED => Ended::GoneAway(REQUEST_REJECTED),
                code => Ended::Reset(code),
            });
        }
        self.check_own_streams();
        Ok(received.bytes)
    }

    /// Reads until the response on a stream is complete or has this number of bytes, including frame headers.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the connection first.
    pub fn receive_part(&mut self, stream: StreamId, bytes: usize) -> Result<(), Ended> {
        self.run_until(|client| {
            let received = &client.streams[&stream];
            received.bytes.len() >= bytes || received.progress != Progress::Open
        })
    }

    /// Returns `true` if the response on a stream has been received, or the server has reset it.
    #[must_use]
    pub fn is_complete(&self, stream: StreamId) -> bool {
        self.streams[&stream].progress != Progress::Open
    }

    /// Returns the number of bytes of an incomplete response that have been received, including frame headers.
    #[must_use]
    pub fn received_bytes(&self, stream: StreamId) -> usize {
        self.streams.get(&stream).map_or(0, |received| received.bytes.len())
    }

    /// Waits until the server has sent GOAWAY and returns the stream ID in its last one.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends first.
    pub fn await_goaway(&mut self) -> Result<u64, Ended> {
        self.run_until(|client| client.goaway().is_some())?;
        Ok(self.goaway().expect("the condition was met"))
    }

    /// Waits until the server has closed the connection and returns its error code (RFC 9114, section 8.1).
    ///
    /// # Panics
    ///
    /// Panics if the connection does not end in time, or ends in another way.
    pub fn await_close(&mut self) -> u64 {
        self.await_close_or_reset().expect("a code, and no stateless reset")
    }

    /// Does the same, but also accepts a stateless reset. The result is `None` in this case: the server has closed the connection
    /// and forgotten it, while its notice was lost among other datagrams.
    ///
    /// # Panics
    ///
    /// Panics if the connection does not end in time, or ends in another way.
    pub fn await_close_or_reset(&mut self) -> Option<u64> {
        let ended = self.run_until(|_| false).expect_err("the condition is never met");
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
            Some(ConnectionError::Reset) => None,
            other => panic!("the server doesn't close the connection: {other:?}, {ended}"),
        }
    }

    /// Returns `true` if the connection was lost without an error on either side. This can be a timeout, a stateless reset, or the
    /// server closing it with H3_NO_ERROR.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        match &self.lost {
            Some(ConnectionError::TimedOut | ConnectionError::Reset) => true,
            Some(ConnectionError::ApplicationClosed(close)) => {
                close.error_code.into_inner() == u64::from(NO_ERROR)
            }
            _ => false,
        }
    }

    /// Opens a stream of the client, assuming that the server has allowed one of this direction.
    pub fn open_stream(&mut self, direction: Dir) -> StreamId {
        self.try_open_stream(direction).expect("the server allows another stream")
    }

    /// Opens a stream of the client. Fails if the connection has ended or the server does not allow another stream.
    pub fn try_open_stream(&mut self, direction: Dir) -> Option<StreamId> {
        let stream = self.connection.streams().open(direction)?;
        if direction == Dir::Bi {
            self.streams.insert(stream, Received::default());
        }
        Some(stream)
    }

    /// Sends bytes on a stream of the client. All of them must fit the server's windows.
    pub fn send(&mut self, stream: StreamId, bytes: &[u8]) {
        let mut chunks = [Bytes::copy_from_slice(bytes)];
        // If the server does not want more, the next read will show it.
        if let Ok(written) = self.connection.send_stream(stream).write_chunks(&mut chunks) {
            assert_eq!(written.bytes, bytes.len(), "the server's windows are too small");
        }
        self.transmit();
    }

    /// Sends bytes on the client's control stream.
    pub fn send_on_control_stream(&mut self, bytes: &[u8]) {
        self.send(StreamId::new(Side::Client, Dir::Uni, 0), bytes);
    }

    /// Sends the head of a request and returns its stream. Content may follow.
    pub fn begin_request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> StreamId {
        let stream = self.open_stream(Dir::Bi);
        self.send(stream, &frame(HEADERS, &field_section(fields)));
        stream
    }

    /// Ends the sending part of a stream.
    pub fn finish(&mut self, stream: StreamId) {
        let _ = self.connection.send_stream(stream).finish();
        self.transmit();
    }

    /// Resets the sending part of a stream.
    pub fn reset(&mut self, stream: StreamId, code: u32) {
        // It fails if the server has acknowledged all of it.
        let _ = self.connection.send_stream(stream).reset(VarInt::from_u32(code));
        self.transmit();
    }

    /// Wants no more of a response.
    pub fn stop(&mut self, stream: StreamId, code: u32) {
        // It fails if all of it has been received.
        let _ = self.connection.recv_stream(stream).stop(VarInt::from_u32(code));
        self.streams.remove(&stream);
        self.transmit();
    }

    /// Returns the certificate of the server.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        let identity = self.connection.crypto_session().peer_identity().expect("after the handshake");
        identity.downcast::<Vec<CertificateDer<'static>>>().expect("of rustls").remove(0)
    }

    /// Returns the protocol that the server has selected by ALPN.
    #[must_use]
    pub fn protocol(&self) -> Option<Vec<u8>> {
        let data = self.connection.crypto_session().handshake_data().expect("after the handshake");
        data.downcast::<HandshakeData>().expect("of rustls").protocol
    }

    /// From now on, sends from another port of this address, like after a change of network.
    ///
    /// # Errors
    ///
    /// Fails if this machine does not have the address.
    pub fn rebind(&mut self, address: IpAddr) -> io::Result<()> {
        self.socket = UdpSocket::bind((address, 0))?;
        self.connection.local_address_changed();
        self.transmit();
        Ok(())
    }

    /// Sends packets with forged frames until there are none left, as fast as the server acknowledges them.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends first.
    pub fn send_forged(&mut self, forgery: &Forgery) -> Result<(), Ended> {
        self.run_until(|client| {
            let mut waiting = forgery.waiting();
            while waiting > 0 {
                client.connection.ping();
                client.transmit();
                let before = std::mem::replace(&mut waiting, forgery.waiting());
                if waiting == before {
                    // The congestion window is full.
                    break;
                }
            }
            waiting == 0
        })
    }

    /// Sends a request from another address of this machine without receiving anything there, like an attacker who forges the
    /// address.
    ///
    /// # Errors
    ///
    /// Fails if this machine does not have the address, or the connection has ended.
    pub fn forge_request<N: AsRef<str>>(&mut self, address: IpAddr, fields: &[(N, N)]) -> Result<(), Ended> {
        self.transmit();
        let own = std::mem::replace(&mut self.socket, UdpSocket::bind((address, 0))?);
        let sent = self.send_request(fields);
        self.socket = own;
        sent.map(drop)
    }

    /// Closes the connection with NO_ERROR of HTTP/3.
    pub fn close(mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(NO_ERROR), Bytes::new());
        self.transmit();
    }

    /// Sends and receives until the condition is met.
    fn run_until(&mut self, mut is_met: impl FnMut(&mut Client) -> bool) -> Result<(), Ended> {
        let deadline = Instant::now() + self.timeout;
        loop {
            self.advance();
            if is_met(self) {
                self.transmit();
                return Ok(());
            }
            if let Some(lost) = &self.lost {
                return Err(Ended::Closed(io::Error::other(lost.clone())));
            }
            self.transmit();

            let now = Instant::now();
            if now >= deadline {
                return Err(Ended::Closed(io::ErrorKind::TimedOut.into()));
            }
            let wake_up = self.connection.poll_timeout().unwrap_or(deadline).min(deadline);
            self.wait(wake_up.saturating_duration_since(now))?;
        }
    }

    /// Acknowledges datagrams as long as a condition holds. No streams are read, so that the windows will not grow.
    ///
    /// # Errors
    ///
    /// Fails if the socket does.
    pub fn acknowledge_while(&mut self, holds: impl Fn() -> bool) -> io::Result<()> {
        while holds() {
            self.wait(CONDITION_INTERVAL)?;
            self.handle_events();
            self.transmit();
        }
        Ok(())
    }

    /// Waits for datagrams and passes those that have arrived to the connection.
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        // Zero would mean no limit.
        self.socket.set_read_timeout(Some(timeout.max(Duration::from_micros(100))))?;
        if let Ok((bytes, source)) = self.socket.recv_from(&mut buffer) {
            self.process(source, &buffer[..bytes]);
            self.process_waiting(&mut buffer)?;
        }
        Ok(())
    }

    /// Passes the datagrams that have arrived to the connection.
    fn process_waiting(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        while let Ok((bytes, source)) = self.socket.recv_from(buffer) {
            self.process(source, &buffer[..bytes]);
        }
        self.socket.set_nonblocking(false)
    }

    fn process(&mut self, source: SocketAddr, datagram: &[u8]) {
        let bytes = BytesMut::from(datagram);
        let event = self.endpoint.handle(Instant::now(), source, None, None, bytes, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Handles timeouts and events and reads all streams.
    fn advance(&mut self) {
        self.handle_events();
        for (stream, received) in &mut self.streams {
            if received.progress == Progress::Open {
                read(&mut self.connection, *stream, received);
            }
        }
    }

    fn handle_events(&mut self) {
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.connection.handle_timeout(now);
        }

        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_established = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    assert_eq!(dir, Dir::Uni, "a server of HTTP/3 opens no bidirectional stream");
                    while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
                        self.streams.insert(stream, Received::default());
                    }
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }

        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Sends the datagrams of the connection.
    fn transmit(&mut self) {
        let mut datagram = Vec::new();
        while self.connection.poll_transmit(Instant::now(), 1, &mut datagram).is_some() {
            // A datagram that cannot be sent is lost, just as it might be on the network.
            let _ = self.socket.send_to(&datagram, self.server);
            datagram.clear();
        }
    }

    /// Returns the stream ID in the server's last GOAWAY read so far. Requests from this ID on will not be processed.
    #[must_use]
    pub fn goaway(&self) -> Option<u64> {
        let (_, mut frames) = self.own_streams().find(|(kind, _)| *kind == CONTROL_STREAM)?;
        let mut last = None;
        while let Some((kind, mut payload)) = take_frame(&mut frames) {
            if kind == GOAWAY {
                last = take_varint(&mut payload);
            }
        }
        last
    }

    /// Returns the unidirectional streams of the server by their types, as far as those have arrived.
    fn own_streams(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.streams.iter().filter(|(stream, _)| stream.dir() == Dir::Uni).filter_map(|(_, received)| {
            assert_eq!(received.progress, Progress::Open, "the server ended one of its streams");
            let mut bytes = received.bytes.as_slice();
            take_varint(&mut bytes).map(|kind| (kind, bytes))
        })
    }

    /// Checks the server's streams (RFC 9114, section 6.2): its control stream must begin with SETTINGS, there must be at most
    /// one stream of each type, and no QPACK streams as long as there is no dynamic table.
    fn check_own_streams(&self) {
        let mut kinds = Vec::new();
        for (kind, mut bytes) in self.own_streams() {
            assert!(!kinds.contains(&kind), "two streams of type {kind}");
            kinds.push(kind);
            match kind {
                CONTROL_STREAM => {
                    if let Some((first, _)) = take_frame(&mut bytes) {
                        assert_eq!(first, SETTINGS, "SETTINGS come first");
                    }
                }
                ENCODER_STREAM | DECODER_STREAM => panic!("no dynamic table: {kind} {bytes:02x?}"),
                _ => assert_eq!(kind % 0x1f, 0x21 % 0x1f, "a stream of an unknown type: {kind}"),
            }
        }
    }
}

/// Returns the ID of a stream as frames have it.
fn stream_number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// Reads the data of a stream that has arrived.
fn read(connection: &mut Connection, stream: StreamId, received: &mut Received) {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else { return };
    received.progress = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => received.bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => break Progress::Finished,
            Err(ReadError::Blocked) => break Progress::Open,
            Err(ReadError::Reset(code)) => break Progress::Reset(code.into_inner()),
        }
    };
    // The caller transmits in any case.
    let _ = chunks.finalize();
}

/// Parses the frames of a response (RFC 9114, section 4.1).
fn parse_response(mut frames: &[u8], is_head: bool) -> Response {
    let mut response: Option<Response> = None;
    while !frames.is_empty() {
        let (kind, payload) = take_frame(&mut frames).expect("the stream ends with a complete frame");
        match (kind, &mut response) {
            (HEADERS, None) => {
                let head = Response::from_fields(decode(payload));
                // Skips interim responses.
                response = (head.status >= 200).then_some(head);
            }
            (DATA, Some(response)) => response.body.extend_from_slice(payload),
            (HEADERS | DATA | SETTINGS | GOAWAY | PUSH_PROMISE, _) => {
                panic!("not a frame of a response: {kind}")
            }
            // Reserved types are ignored (RFC 9114, section 9).
            _ => {}
        }
    }

    let response = response.expect("the stream has a response");
    response.check_length(is_head);
    response
}
