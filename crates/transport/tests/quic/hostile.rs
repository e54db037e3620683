//! Hostile peers: damaged and forged datagrams, and attacks that earlier versions of libraries were open to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cannery_testkit::http3::{Forgery, Level};
use cannery_testkit::tls::ClientOptions;
use cannery_transport::quic::{
    AcceptError, Arrival, CloseReason, Connection, Context, EarlyData, Event, Received,
};
use proptest::collection::vec;
use proptest::prelude::*;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{HeaderKey, PacketKey};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Keys, Version};

use super::network::{
    Acceptance, CLIENT, Fate, Network, Packet, SERVER, Server, client_config, context, random_seed,
    tls_client, tls_context,
};

const SECOND: Duration = Duration::from_secs(1);

/// The IDs that the forged client uses.
const DESTINATION: [u8; 8] = [0xd0, 1, 2, 3, 4, 5, 6, 7];
const SOURCE: [u8; 4] = [0x50, 1, 2, 3];

/// Encodes an integer below 2^30 in four bytes (RFC 9000 §16).
fn varint(value: usize) -> [u8; 4] {
    (u32::try_from(value).unwrap() | 0x8000_0000).to_be_bytes()
}

/// Encodes a CRYPTO frame.
fn crypto_frame(offset: usize, data: &[u8]) -> Vec<u8> {
    [&[6], &varint(offset)[..], &varint(data.len()), data].concat()
}

/// Returns the keys of a client's Initial packets.
fn client_keys() -> Keys {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
    suite.keys(&DESTINATION, rustls::Side::Client, Version::V1)
}

/// Seals an Initial packet with these frames into a datagram of 1200 bytes.
fn initial(number: u16, frames: &[u8]) -> Vec<u8> {
    initial_with(0xc1, number, &[], frames)
}

fn initial_with(first: u8, number: u16, token: &[u8], frames: &[u8]) -> Vec<u8> {
    let mut header = vec![first, 0, 0, 0, 1, 8];
    header.extend_from_slice(&DESTINATION);
    header.push(4);
    header.extend_from_slice(&SOURCE);
    header.extend_from_slice(&varint(token.len()));
    header.extend_from_slice(token);
    let payload_bytes = 1200 - header.len() - 4 - 2 - 16;
    header.extend_from_slice(&varint(2 + payload_bytes + 16));
    header.extend_from_slice(&number.to_be_bytes());

    let mut payload = frames.to_vec();
    payload.resize(payload_bytes, 0);
    let keys = client_keys();
    let number_start = header.len() - 2;
    let mut packet = [&header[..], &payload, &[0; 16]].concat();
    keys.local.packet.encrypt(number.into(), &mut packet, header.len());
    keys.local.header.encrypt(number_start, &mut packet);
    packet
}

/// Returns a ClientHello with these transport parameters.
fn hello(parameters: &[u8]) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let tls = tls_client(&["h3"]);
    let mut connection = ClientConnection::new(tls, Version::V1, name, parameters.to_vec()).unwrap();
    let mut hello = Vec::new();
    assert!(connection.write_hs(&mut hello).is_none());
    hello
}

/// Returns valid transport parameters: `initial_source_connection_id`, then these.
fn parameters(more: &[u8]) -> Vec<u8> {
    [&[0x0f, 4], &SOURCE[..], more].concat()
}

/// A server that receives forged datagrams, which it accepts.
struct Target {
    network: Network,
    connection: Option<Connection>,
    error: Option<AcceptError>,
    sent: usize,
}

impl Target {
    fn new() -> Self {
        let network = Network::new(Server::new(&context(&random_seed())));
        Self { network, connection: None, error: None, sent: 0 }
    }

    /// Delivers a datagram and takes the server's answer. Returns the events of the connection.
    fn deliver(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.deliver_from(CLIENT, bytes)
    }

    fn deliver_from(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Event> {
        let now = self.network.now;
        let endpoint = &mut self.network.server.endpoint;
        let mut buffer = Vec::new();
        let arrival = Arrival { source, destination: None, ecn: 0, bytes };
        match endpoint.receive(now, &arrival, &mut buffer) {
            Received::Connection(_, event) => {
                if let Some(connection) = &mut self.connection {
                    connection.receive(event);
                }
            }
            Received::Incoming(incoming) => match endpoint.accept(now, incoming, &mut buffer) {
                Ok(connection) => assert!(self.connection.replace(connection).is_none()),
                Err(error) => self.error = Some(error),
            },
            Received::Reply(transmit) => self.sent += transmit.bytes,
            Received::Dropped | Received::Invalid => {}
        }
        self.take_datagrams()
    }

    /// Takes the datagrams of the connection. Returns its events.
    fn take_datagrams(&mut self) -> Vec<Event> {
        let Some(connection) = &mut self.connection else { return Vec::new() };
        let events = std::iter::from_fn(|| connection.next_event()).collect();
        let (now, mut buffer) = (self.network.now, Vec::new());
        self.network.server.endpoint.maintain(now, connection);
        while let Some(transmit) = connection.poll_transmit(now, 10.try_into().unwrap(), &mut buffer) {
            self.sent += transmit.bytes;
        }
        events
    }

    /// Sends a hello in as many packets as it takes. Returns the events.
    fn send_hello(&mut self, hello: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, part) in hello.chunks(1000).enumerate() {
            let number = u16::try_from(index).unwrap();
            events.extend(self.deliver(&initial(number, &crypto_frame(index * 1000, part))));
        }
        events
    }

    /// Returns the code with which the server has closed the connection.
    fn violation(&self, events: &[Event]) -> Option<u64> {
        let reason = match &self.error {
            Some(error) => Some(&error.reason),
            None => events.iter().find_map(|event| match event {
                Event::Closed(reason) => Some(reason),
                _ => None,
            }),
        };
        match reason? {
            CloseReason::Violation { code, .. } => Some(*code),
            _ => None,
        }
    }
}

#[test]
fn forged_hello_with_valid_parameters_is_answered() {
    let mut target = Target::new();
    let events = target.send_hello(&hello(&parameters(&[])));
    assert_eq!(events, []);
    assert!(target.sent > 1200);
    assert!(target.connection.unwrap().is_handshaking());
}

/// The limit counts only datagrams from the address that may be forged (RFC 9000 §8.1).
#[test]
fn datagrams_from_other_addresses_do_not_raise_the_amplification_limit() {
    let mut target = Target::new();
    let hello = hello(&parameters(&[]));
    target.send_hello(&hello);
    let limit = 3 * 1200 * hello.len().div_ceil(1000);
    for number in 100..120 {
        target.deliver_from("203.0.113.66:1".parse().unwrap(), &initial(number, &[1]));
    }
    // The server repeats its messages until it gives up.
    while let Some(timeout) = target.connection.as_mut().unwrap().timeout() {
        target.network.now = timeout;
        target.connection.as_mut().unwrap().handle_timeout(timeout);
        target.take_datagrams();
    }
    assert!(target.sent > limit / 2 && target.sent <= limit, "{} bytes of {limit}", target.sent);
}

/// RUSTSEC-2026-0037: transport parameters made quinn-proto panic.
#[test]
fn invalid_transport_parameters_close_the_connection() {
    // Identifier, length, value.
    let cases: [&[u8]; 14] = [
        &[0x03, 2, 0x44, 0xaf],                                      // max_udp_payload_size 1199
        &[0x0a, 1, 21],                                              // ack_delay_exponent 21
        &[0x0b, 4, 0x80, 0, 0x40, 0],                                // max_ack_delay 2^14
        &[0x0e, 1, 1],                                               // active_connection_id_limit 1
        &[0x08, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],  // initial_max_streams_bidi 2^62 - 1
        &[0x01, 0],                                                  // max_idle_timeout without a value
        &[0x01, 2, 1, 1],                                            // with more than its value
        &[0x01, 8, 1],                                               // truncated
        &[0x01, 1, 1, 0x01, 1, 1],                                   // twice
        &[0x00, 1, 1], // original_destination_connection_id, of servers only
        &[0x02, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // stateless_reset_token
        &[0x0d, 1, 0], // preferred_address
        &[0x10, 1, 1], // retry_source_connection_id
        &[0x0c, 1, 1], // disable_active_migration with a value
    ];
    for case in cases {
        let mut target = Target::new();
        let events = target.send_hello(&hello(&parameters(case)));
        assert_eq!(target.violation(&events), Some(8), "TRANSPORT_PARAMETER_ERROR for {case:x?}");
    }

    let mut target = Target::new();
    let events = target.send_hello(&hello(&[]));
    assert_eq!(target.violation(&events), Some(8), "no initial_source_connection_id");
    let mut target = Target::new();
    let events = target.send_hello(&hello(&[0x0f, 4, 9, 9, 9, 9]));
    assert_eq!(target.violation(&events), Some(8), "another initial_source_connection_id");
}

#[test]
fn malformed_hello_closes_the_connection() {
    let mut target = Target::new();
    let mut malformed = hello(&parameters(&[]));
    malformed[6] = 0xff;
    malformed.truncate(500);
    malformed[1..4].copy_from_slice(&[0, 1, 0xf0]);
    let events = target.send_hello(&malformed);
    assert!(target.violation(&events).is_some_and(|code| (0x100..0x200).contains(&code)));

    let mut target = Target::new();
    let events = target.deliver(&initial(0, &crypto_frame(0, &[20, 0, 0, 4, 1, 2, 3, 4])));
    assert_eq!(target.violation(&events), Some(0x10a), "Finished instead of a hello");
}

/// Gets the code with which the server refuses a client that sends these frames in packets of a
/// level.
fn refusal(level: Level, frames: &[&[u8]]) -> Option<u64> {
    let forgery = Forgery::default();
    let tls = ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data().build();
    let tls = QuicClientConfig::try_from(Arc::new(tls)).unwrap();

    let seed = random_seed();
    let context = Context::new(&tls_context(&seed), None, EarlyData::Accepted).unwrap();
    let mut network = Network::new(Server::new(&context));
    let config = quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls)));

    if level == Level::Early {
        network.connect(config.clone());
        network.run(SECOND);
    }
    if level != Level::Application {
        frames.iter().for_each(|frames| forgery.push(level, frames.to_vec()));
    }

    let handle = network.connect(config);
    if level == Level::Early {
        let connection = &mut network.remote(handle).connection;
        assert!(connection.has_0rtt());
        let id = connection.streams().open(quinn_proto::Dir::Bi).unwrap();
        connection.send_stream(id).write(b"a long early request that leaves room for frames").unwrap();
    }

    network.run(SECOND);
    if level == Level::Application {
        for frames in frames {
            forgery.push(level, frames.to_vec());
            let connection = &mut network.remote(handle).connection;
            let id = connection.streams().open(quinn_proto::Dir::Bi).unwrap();
            connection
                .send_stream(id)
                .write(b"a long request that leaves room for all these frames")
                .unwrap();
            network.run(SECOND);
        }
    }

    assert_eq!(forgery.waiting(), 0, "the frames were sent");
    let lost = network.remote(handle).loss()?;
    match lost {
        quinn_proto::ConnectionError::ConnectionClosed(close) => Some(close.error_code.into()),
        other => panic!("{other}"),
    }
}

#[test]
fn frames_that_a_level_may_not_carry_are_refused() {
    let violation = Some(0xa);
    assert_eq!(refusal(Level::Handshake, &[&[0x1d, 0, 0]]), violation);
    // ACK, CRYPTO, NEW_TOKEN, RETIRE_CONNECTION_ID, PATH_RESPONSE, HANDSHAKE_DONE.
    let early: [&[u8]; 6] =
        [&[2, 0, 0, 0, 0], &[6, 0, 1, 1], &[7, 1, 1], &[0x19, 0], &[0x1b, 1, 1, 1, 1, 1, 1, 1, 1], &[0x1e]];
    for frame in early {
        assert_eq!(refusal(Level::Early, &[frame]), violation, "{frame:x?}");
    }
    assert_eq!(refusal(Level::Early, &[&[1]]), None, "PING");
}

#[test]
fn number_of_a_connection_id_is_used_once() {
    // The client has issued others with this number.
    let id = [&[0x18, 2, 0, 8][..], &[1; 8], &[2; 16]].concat();
    assert_eq!(refusal(Level::Application, &[&id]), Some(0xa), "PROTOCOL_VIOLATION");
}

/// A client retires an ID that it does not use in the same packet.
#[test]
fn connection_id_in_use_is_not_retired() {
    let violation = Some(0xa);
    assert_eq!(refusal(Level::Application, &[&[0x19, 0]]), violation);
    assert_eq!(refusal(Level::Application, &[&[0x19, 40]]), violation, "it was never issued");
}

#[test]
fn packet_without_the_fixed_bit_is_dropped() {
    let (mut network, handle) = Network::connected();
    network.path = Box::new(|packet| {
        if packet.is_for_server() {
            packet.bytes[0] &= !0x40;
        }
        Fate::Deliver
    });
    let received = network.server.only().connection.stats().received_datagrams;
    network.remote(handle).connection.ping();
    network.run(SECOND);
    assert_eq!(network.server.only().connection.stats().received_datagrams, received);
    network.path = Box::new(|_| Fate::Deliver);
    network.run(5 * SECOND);
    assert!(network.remote(handle).loss().is_none());
}

#[test]
fn hello_of_drafts_and_earlier_versions_is_refused() {
    let parameters = parameters(&[]);
    let valid = hello(&parameters);
    // With its length, because two bytes alone may also be somewhere in the random ones.
    let [high, low] = u16::try_from(parameters.len()).unwrap().to_be_bytes();
    let extension = valid.windows(4).position(|bytes| bytes == [0, 0x39, high, low]);
    let extension = extension.expect("transport parameters");
    let mut of_draft = valid.clone();
    of_draft[extension..extension + 2].copy_from_slice(&[0xff, 0xa5]);
    let mut target = Target::new();
    let events = target.send_hello(&of_draft);
    assert_eq!(target.violation(&events), Some(0x100 + 109), "missing_extension (RFC 9001 §8.2)");

    let mut with_session_id = valid.clone();
    with_session_id[38] = 32;
    with_session_id.splice(39..39, [7; 32]);
    let length = u16::try_from(with_session_id.len() - 4).unwrap();
    with_session_id[2..4].copy_from_slice(&length.to_be_bytes());
    let mut target = Target::new();
    let events = target.send_hello(&with_session_id);
    assert_eq!(target.violation(&events), Some(0xa), "PROTOCOL_VIOLATION (RFC 9001 §8.4)");
}

/// GHSA-vr26-jcq5-fjj8: a repeated first packet made quinn-proto panic.
#[test]
fn repeated_initial_is_harmless() {
    let first = initial(0, &crypto_frame(0, &hello(&parameters(&[]))[..1000]));
    let mut target = Target::new();
    for _ in 0..5 {
        target.deliver(&first);
    }
    assert_eq!(target.network.server.endpoint.half_open(), 1);

    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    for _ in 0..5 {
        network.send(Packet { source: CLIENT, destination: SERVER, ecn: 0, bytes: first.clone() });
    }
    network.run(SECOND);
    assert_eq!(network.server.held.len(), 1);
    network.accept_held();
    network.run(SECOND);
    assert_eq!(network.server.connections.len(), 1);
}

/// RUSTSEC-2026-0185: fragments of handshake messages took unlimited memory.
#[test]
fn fragments_of_the_handshake_are_limited() {
    let mut target = Target::new();
    target.deliver(&initial(0, &[1]));
    let mut number = 0;
    let mut closed = None;
    // One byte of every two, from the end backwards.
    for offset in (1..15_000).step_by(2).rev() {
        number += 1;
        let events = target.deliver(&initial(number, &crypto_frame(offset, &[1])));
        if let Some(code) = target.violation(&events) {
            closed = Some((number, code));
            break;
        }
    }
    let (packets, code) = closed.expect("the connection is closed");
    assert!(packets < 5000 && code != 0, "{packets} packets, code {code}");

    let mut target = Target::new();
    let events = target.deliver(&initial(0, &crypto_frame(17_000, &[1])));
    assert_eq!(target.violation(&events), Some(0xd), "CRYPTO_BUFFER_EXCEEDED");
}

#[test]
fn fragments_of_the_handshake_take_little_memory() {
    let mut target = Target::new();
    target.deliver(&initial(0, &crypto_frame(1, &[1])));
    let fragment = |number: u16| initial(number, &crypto_frame(1 + 2 * usize::from(number), &[1]));
    let datagrams: Vec<_> = (1..250).map(fragment).collect();
    let kept = allocation_counter::measure(|| {
        for datagram in &datagrams {
            assert_eq!(target.deliver(datagram), []);
        }
    });
    let counted = target.connection.as_mut().unwrap().kept_bytes();
    // Buffers for datagrams of 1,472 bytes are in use again, but for the first one.
    let kept = u64::try_from(kept.bytes_current).unwrap();
    assert!(kept < 121_500 && counted + 60_000 > kept && counted > 20_000, "{counted} of {kept} bytes");
}

#[test]
fn endless_handshake_is_closed() {
    let mut target = Target::new();
    // A hello of 65,000 bytes that never ends.
    let mut message = vec![1, 0, 0xfd, 0xe8];
    message.resize(1000, 0);
    let mut codes = Vec::new();
    for index in 0..30 {
        let part = if index == 0 { message.clone() } else { vec![0; 1000] };
        let events = target.deliver(&initial(index, &crypto_frame(usize::from(index) * 1000, &part)));
        codes.extend(target.violation(&events));
    }
    assert_eq!(codes, [0xd], "CRYPTO_BUFFER_EXCEEDED");
}

#[test]
fn frames_that_an_initial_may_not_carry_are_refused() {
    // STREAM, MAX_DATA, NEW_TOKEN, NEW_CONNECTION_ID, PATH_CHALLENGE, HANDSHAKE_DONE, an unknown type.
    for frame in [0x08, 0x10, 0x07, 0x18, 0x1a, 0x1e, 0x21] {
        let mut target = Target::new();
        let events = target.deliver(&initial(0, &[frame, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
        let code = target.violation(&events).unwrap();
        assert!(code == 0xa || code == 7, "PROTOCOL_VIOLATION or FRAME_ENCODING_ERROR: {code:#x}");
    }
    // CONNECTION_CLOSE by the application would take effect (RFC 9000 §12.5).
    let mut target = Target::new();
    let events = target.deliver(&initial(0, &[0x1d, 0, 0]));
    assert_eq!(target.violation(&events), Some(0xa), "PROTOCOL_VIOLATION");

    let mut target = Target::new();
    let events = target.deliver(&initial(0, &[]));
    assert_eq!(events, [], "PADDING alone is legal");
}

#[test]
fn short_and_malformed_initials_keep_no_state() {
    let mut target = Target::new();
    let valid = initial(0, &crypto_frame(0, &hello(&parameters(&[]))[..1000]));
    for length in 0..valid.len() {
        target.deliver(&valid[..length]);
        assert_eq!(target.network.server.endpoint.half_open(), 0, "{length} bytes");
    }
    let mut wrong_tag = valid.clone();
    *wrong_tag.last_mut().unwrap() ^= 1;
    target.deliver(&wrong_tag);
    assert!(target.error.take().is_some_and(|error| error.reply.is_none()));
    assert_eq!(target.network.server.endpoint.half_open(), 0);

    target.deliver(&valid);
    assert_eq!(target.network.server.endpoint.half_open(), 1);
}

#[test]
fn forged_tokens_do_not_validate() {
    for token in [&[0; 40][..], &[0xff; 16], &[1], &[7; 500]] {
        let mut network = Network::new(Server::new(&context(&random_seed())));
        network.server.acceptance = Acceptance::Held;
        let bytes = initial_with(0xc1, 0, token, &crypto_frame(0, &[1, 0, 2, 0]));
        network.send(Packet { source: CLIENT, destination: SERVER, ecn: 0, bytes });
        network.run(SECOND);
        assert!(!network.server.held[0].is_validated());
    }
}

#[test]
fn early_datagrams_of_a_held_connection_are_limited() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    for number in 0..1000 {
        let bytes = initial(number, &[1]);
        network.send(Packet { source: CLIENT, destination: SERVER, ecn: 0, bytes });
    }
    network.run(SECOND);
    assert_eq!(network.server.held.len(), 1);
    network.accept_held();
    let datagrams = network.server.only().connection.stats().received_datagrams;
    assert_eq!(datagrams, 16 * 1024 / 1200, "without the first");
}

/// Returns `true` if the server has reported that the client exceeded its budget.
fn is_budget_exceeded(network: &mut Network) -> bool {
    network.server.only().events.contains(&Event::BudgetExceeded)
}

#[test]
fn flood_of_pings_exceeds_the_budget() {
    let (mut network, handle) = Network::connected();
    let mut pings = 0;
    while !is_budget_exceeded(&mut network) {
        pings += 1;
        assert!(pings < 4000, "the flood is noticed");
        network.remote(handle).connection.ping();
        network.run(Duration::from_micros(200));
    }
    assert!(pings > 1800, "{pings} are harmless");

    // Further datagrams have no effect.
    let received = network.server.only().connection.stats().received_datagrams;
    for _ in 0..100 {
        network.remote(handle).connection.ping();
        network.run(Duration::from_micros(200));
    }
    let served = network.server.only();
    assert_eq!(served.connection.stats().received_datagrams, received);
    assert_eq!(served.events.iter().filter(|event| **event == Event::BudgetExceeded).count(), 1);

    let now = network.now;
    network.server.only().connection.close(now, 0x107, b"");
    network.run(5 * SECOND);
    let loss = network.remote(handle).loss().unwrap().to_string();
    assert!(loss.contains("263"), "{loss}");
    assert_eq!(network.server.endpoint.connections(), 0);
}

#[test]
fn pings_from_time_to_time_are_harmless() {
    let (mut network, handle) = Network::connected();
    for _ in 0..4000 {
        network.remote(handle).connection.ping();
        network.run(Duration::from_millis(12));
    }
    assert!(!is_budget_exceeded(&mut network));
}

#[test]
fn datagrams_of_others_are_not_charged_to_the_client() {
    let (mut network, handle) = Network::connected();
    network.remote(handle).connection.ping();
    network.run(SECOND);
    let recorded = network.sent.iter().rfind(|packet| packet.is_for_server()).unwrap().clone();
    let mut damaged = recorded.clone();
    *damaged.bytes.last_mut().unwrap() ^= 1;
    for packet in [recorded, damaged] {
        for _ in 0..5000 {
            network.send(packet.clone());
        }
        network.run(SECOND);
    }
    assert!(network.server.only().connection.stats().received_datagrams > 10_000);
    assert!(!is_budget_exceeded(&mut network));

    network.remote(handle).connection.ping();
    network.run(SECOND);
    assert!(network.remote(handle).loss().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_never_panics(datagrams in vec(vec(any::<u8>(), 0..1400), 1..30)) {
        let mut target = Target::new();
        for datagram in datagrams {
            target.deliver(&datagram);
            let longer = [&datagram[..], &[0; 1200]].concat();
            target.deliver(&longer);
            // With the form of an Initial packet of version 1.
            let mut initial = longer;
            initial[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
            target.deliver(&initial);
        }
    }

    #[test]
    fn random_frames_never_panic(frames in vec(vec(any::<u8>(), 0..300), 1..20)) {
        let mut target = Target::new();
        for (number, frames) in frames.iter().enumerate() {
            target.deliver(&initial(u16::try_from(number).unwrap(), frames));
        }
    }

    #[test]
    fn damaged_hello_never_panics(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        parameters in vec(any::<u8>(), 0..60),
    ) {
        let mut hello = hello(&parameters);
        for (position, byte) in changes {
            let position = position.index(hello.len());
            hello[position] = byte;
        }
        Target::new().send_hello(&hello);
    }

    #[test]
    fn damaged_datagrams_never_panic_nor_end_connections(
        seed in any::<u64>(),
        rate in 2_u64..20,
    ) {
        let (mut network, handle) = Network::connected();

        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };

        network.path = Box::new(move |packet| {
            if random() % rate == 0 {
                let position = usize::try_from(random()).unwrap() % packet.bytes.len();
                match random() % 3 {
                    0 => packet.bytes.truncate(position),
                    1 => packet.bytes[position] ^= 1 << (random() % 8),
                    _ => packet.bytes.extend_from_slice(&[0x40; 50]),
                }
            }
            Fate::Deliver
        });

        for _ in 0..20 {
            let connection = &mut network.remote(handle).connection;
            if let Some(id) = connection.streams().open(quinn_proto::Dir::Bi) {
                connection.send_stream(id).write(b"request").unwrap();
            }
            network.run(Duration::from_millis(300));
        }

        prop_assert_eq!(network.server.connections.len(), 1);
        network.connect(client_config(&tls_client(&["h3"])));
        network.run(5 * SECOND);
    }
}

#[test]
fn context_is_shared_between_threads() {
    fn assert_shared<T: Send + Sync>(_: &T) {}
    fn assert_sent<T: Send>() {}
    assert_shared(&Arc::new(context(&random_seed())));
    assert_sent::<cannery_transport::quic::Endpoint>();
    assert_sent::<Connection>();
}
