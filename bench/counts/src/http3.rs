//! A client over HTTP/3 in memory. It is not counted; the bytes of its requests are pinned.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use cannery_testkit::tls::ClientOptions;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamEvent,
};

/// The address of the server, which only the client uses.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 443);

/// The start of the control stream, with an empty SETTINGS frame (RFC 9114 §6.2.1, §7.2.4).
const CONTROL_STREAM_START: [u8; 3] = [0, 4, 0];

/// A HEADERS frame with the fields of a load generator: `:method`, `:scheme`, `:authority` and `:path`, the last two as
/// literals with static names (RFC 9204 §4.5.2, §4.5.4).
const REQUEST: &[u8] = b"\x01\x20\0\0\xd1\xd7\x50\x0e127.0.0.1:8080\x51\x0a/hello.txt";

/// A client with one connection. Its clock doesn't advance.
#[derive(Debug)]
pub struct Http3Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    now: Instant,
    responses: usize,
}

impl Http3Client {
    /// Creates a client that begins its handshake.
    ///
    /// # Panics
    /// The library refuses the configuration.
    #[must_use]
    pub fn connect(now: Instant) -> Http3Client {
        let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build());
        let crypto = QuicClientConfig::try_from(tls).expect("the client offers TLS 1.3");
        let config = ClientConfig::new(Arc::new(crypto));
        let mut endpoint_config = EndpointConfig::default();
        endpoint_config.rng_seed(Some([1; 32]));
        let mut endpoint = Endpoint::new(Arc::new(endpoint_config), None, true, None);
        let connected = endpoint.connect(now, config, SERVER, "localhost");
        let (handle, connection) = connected.expect("the configuration is valid");
        Http3Client { endpoint, handle, connection, now, responses: 0 }
    }

    /// Returns the number of responses that were received completely.
    #[must_use]
    pub fn responses(&self) -> usize {
        self.responses
    }

    /// Sends the same request on this number of streams, or on as many as the server permits now. Returns their number.
    ///
    /// # Panics
    /// The connection is lost.
    pub fn request(&mut self, streams: usize) -> usize {
        let mut requests = 0;
        while requests < streams
            && let Some(id) = self.connection.streams().open(Dir::Bi)
        {
            let mut stream = self.connection.send_stream(id);
            stream.write(REQUEST).expect("the stream is empty");
            stream.finish().expect("the stream is open");
            requests += 1;
        }
        requests
    }

    /// Processes datagrams of the server.
    pub fn receive(&mut self, datagrams: Vec<Vec<u8>>) {
        for datagram in datagrams {
            let bytes = datagram.as_slice().into();
            let event = self.endpoint.handle(self.now, SERVER, None, None, bytes, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }

        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    let control =
                        self.connection.streams().open(Dir::Uni).expect("servers allow three streams");
                    let written = self.connection.send_stream(control).write(&CONTROL_STREAM_START);
                    written.expect("the stream is empty");
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while self.connection.streams().accept(dir).is_some() {}
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    let mut stream = self.connection.recv_stream(id);
                    // It may have been read to its end.
                    let Ok(mut chunks) = stream.read(true) else { continue };
                    while let Ok(next) = chunks.next(usize::MAX) {
                        if next.is_none() {
                            self.responses += 1;
                            break;
                        }
                    }
                    let _ = chunks.finalize();
                }
                _ => {}
            }
        }
    }

    /// Returns the datagrams that the client sends now.
    pub fn send(&mut self) -> Vec<Vec<u8>> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while self.connection.poll_transmit(self.now, 1, &mut buffer).is_some() {
            datagrams.push(std::mem::take(&mut buffer));
        }
        datagrams
    }
}
