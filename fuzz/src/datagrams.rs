//! Datagrams to an endpoint of QUIC: any bytes, Initial packets with any frames, and parts of a hello in any order.
//!
//! It checks four promises: no input causes a panic; an address that may be forged is sent at most three times as many bytes as it
//! has sent; the number of half-open connections is bounded; and an accepted connection ends by its timeouts, without a trace in the
//! endpoint.
//!
//! The keys of Initial packets follow from a connection ID, so that anyone can seal them. We cannot seal packets that need the
//! server's hello: `crates/transport/tests/quic/hostile.rs` changes those of a real client.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use cannery_testkit::Choices;
use cannery_testkit::tls::ClientOptions;
use cannery_transport::limits::{QUIC_AMPLIFICATION_MAX, QUIC_HALF_OPEN_MAX, QUIC_IDLE_MS};
use cannery_transport::quic::{
    Arrival, Connection, Context, EarlyData, Endpoint, Generation, Received, Transmit,
};
use cannery_transport::{Certificates, Protocol, SelfSigned, Settings, Version};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Version as QuicVersion};

/// The connection IDs of the client.
const DESTINATION: [u8; 8] = [0xd0, 1, 2, 3, 4, 5, 6, 7];
const SOURCE: [u8; 4] = [0x50, 1, 2, 3];

/// The length of datagrams with Initial packets.
const DATAGRAM_BYTES: usize = 1200;

/// The length of a part of the hello, which takes several datagrams.
const HELLO_PART_BYTES: usize = 700;

/// The datagrams of one input, at most.
const DATAGRAMS_MAX: usize = 40;

const BATCH_SEGMENTS: NonZeroUsize = NonZeroUsize::new(10).unwrap();

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
    let now = SystemTime::now();
    let tls = cannery_transport::Context::new(Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now)
            .expect("a certificate can be made"),
        seed: None,
        versions: vec![Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    });
    let tls = tls.expect("the settings are valid");
    Context::new(&tls, None, EarlyData::Refused).expect("the settings are valid")
});

/// A ClientHello with valid transport parameters.
static HELLO: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tls = ClientOptions::default().tls13().protocols(&["h3"]).build();
    let name = ServerName::try_from("localhost").expect("it is a name");
    let parameters = [&[0x0f, 4], &SOURCE[..]].concat();
    let mut connection = ClientConnection::new(Arc::new(tls), QuicVersion::V1, name, parameters)
        .expect("the client offers TLS 1.3");
    let mut hello = Vec::new();
    assert!(connection.write_hs(&mut hello).is_none(), "the first message has no keys");
    hello
});

/// Sends datagrams: each is a byte with its kind, followed by its arguments.
pub fn datagrams(data: &[u8]) {
    let mut server = Server::new();
    let mut choices = Choices::new(data);
    for number in 0..DATAGRAMS_MAX {
        let Some(operation) = choices.operation() else { break };

        let number = u16::try_from(number).expect("there are few datagrams");
        let source = address(operation >> 6);
        match operation % 8 {
            0 => server.receive(source, choices.bytes()),
            1 => {
                let mut datagram = choices.bytes().to_vec();
                datagram.resize(DATAGRAM_BYTES, 0);
                server.receive(source, &datagram);
            }
            // Like an Initial packet, which is not sealed.
            2 => {
                let mut datagram = [&[0xc0, 0, 0, 0, 1], choices.bytes()].concat();
                datagram.resize(DATAGRAM_BYTES, 0);
                server.receive(source, &datagram);
            }
            3 => server.pass(Duration::from_millis(u64::from(choices.byte()) * 20)),
            4 | 5 => server.receive(source, &initial(number, choices.bytes())),
            _ => {
                let part = usize::from(choices.byte());
                server.receive(source, &initial(number, &hello_part(part)));
            }
        }
    }
    server.end();
}

/// Returns an address of a client.
fn address(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, number)), 50_000)
}

/// Returns a CRYPTO frame with a part of the hello.
fn hello_part(part: usize) -> Vec<u8> {
    let parts = HELLO.chunks(HELLO_PART_BYTES);
    let part = part % parts.len();
    let bytes = parts.clone().nth(part).unwrap_or_default();
    [&[0x06], &integer(part * HELLO_PART_BYTES)[..], &integer(bytes.len()), bytes].concat()
}

/// Encodes an integer below 2^30 in four bytes (RFC 9000 §16).
fn integer(value: usize) -> [u8; 4] {
    let value = u32::try_from(value).expect("lengths are short");
    (value | 0x8000_0000).to_be_bytes()
}

/// Seals an Initial packet with these frames.
fn initial(number: u16, frames: &[u8]) -> Vec<u8> {
    let mut header = [&[0xc1, 0, 0, 0, 1, 8], &DESTINATION[..], &[4], &SOURCE, &[0]].concat();
    let payload_bytes = DATAGRAM_BYTES - header.len() - 4 - 2 - 16;
    header.extend_from_slice(&integer(2 + payload_bytes + 16));
    header.extend_from_slice(&number.to_be_bytes());
    let mut payload = frames.to_vec();
    payload.resize(payload_bytes, 0);

    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let keys =
        suite.expect("the suite is one of QUIC").keys(&DESTINATION, rustls::Side::Client, QuicVersion::V1);
    let tag = keys.local.packet.encrypt_in_place(number.into(), &header, &mut payload);
    let tag = tag.expect("a packet is short");
    let number_start = header.len() - 2;
    let mut packet = [&header, &payload, tag.as_ref()].concat();
    let (header, rest) = packet.split_at_mut(number_start + 4);
    let (first, number) = header.split_at_mut(1);
    let protected =
        keys.local.header.encrypt_in_place(&rest[..16], &mut first[0], &mut number[number_start - 1..]);
    protected.expect("the sample has the key's length");
    packet
}

/// An endpoint with its connections.
struct Server {
    endpoint: Endpoint,
    connections: BTreeMap<usize, Connection>,
    now: Instant,
    /// Bytes that were received from and sent to each address.
    traffic: BTreeMap<SocketAddr, (u64, u64)>,
}

impl Server {
    fn new() -> Server {
        Server {
            endpoint: Endpoint::new(&CONTEXT, 0, Generation::new(0), [7; 32]),
            connections: BTreeMap::new(),
            now: *START,
            traffic: BTreeMap::new(),
        }
    }

    fn receive(&mut self, source: SocketAddr, bytes: &[u8]) {
        self.traffic.entry(source).or_default().0 += bytes.len() as u64;
        let arrival = Arrival { source, destination: None, ecn: 0, bytes };
        let mut reply = Vec::new();
        match self.endpoint.receive(self.now, &arrival, &mut reply) {
            Received::Connection(key, event) => {
                if let Some(connection) = self.connections.get_mut(&key.index()) {
                    connection.receive(event);
                }
            }
            Received::Incoming(incoming) => match self.endpoint.accept(self.now, incoming, &mut reply) {
                Ok(connection) => {
                    let key = connection.key().index();
                    assert!(self.connections.insert(key, connection).is_none(), "a key is used once");
                }
                Err(error) => error.reply.iter().for_each(|transmit| self.count_sent(transmit)),
            },
            Received::Reply(transmit) => self.count_sent(&transmit),
            Received::Dropped | Received::Invalid => {}
        }

        self.run();
        assert!(self.endpoint.half_open() <= QUIC_HALF_OPEN_MAX);
    }

    fn count_sent(&mut self, transmit: &Transmit) {
        let (received, sent) = self.traffic.entry(transmit.destination).or_default();
        *sent += transmit.bytes as u64;
        assert!(*sent <= QUIC_AMPLIFICATION_MAX * *received, "{sent} bytes for {received}");
    }

    /// Takes the events and the datagrams of all connections.
    fn run(&mut self) {
        let mut sent = Vec::new();
        let mut buffer = Vec::new();
        for connection in self.connections.values_mut() {
            while connection.next_event().is_some() {}
            self.endpoint.maintain(self.now, connection);
            while let Some(transmit) = connection.poll_transmit(self.now, BATCH_SEGMENTS, &mut buffer) {
                sent.push(transmit);
            }
            self.endpoint.maintain(self.now, connection);
        }
        sent.iter().for_each(|transmit| self.count_sent(transmit));
        self.connections.retain(|_, connection| !connection.is_drained());
    }

    /// Lets time pass, with the timeouts that expire.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let next = self.connections.values_mut().filter_map(Connection::timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for connection in self.connections.values_mut() {
                connection.handle_timeout(self.now);
            }
            self.run();
        }
        self.now = end;
    }

    /// Checks that all connections end if no more datagrams arrive.
    fn end(&mut self) {
        self.pass(Duration::from_millis(u64::from(QUIC_IDLE_MS)) * 4);
        assert!(self.connections.is_empty(), "{:?}", self.connections);
        assert_eq!((self.endpoint.half_open(), self.endpoint.connections()), (0, 0));
    }
}
