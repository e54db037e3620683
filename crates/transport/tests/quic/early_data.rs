//! Early data (0-RTT) is read if the session is resumed for the first time, and never again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_testkit::tls::ClientOptions;
use cannery_transport::HandshakeKind;
use cannery_transport::quic::{
    Connection, Context, Direction, EarlyData, Event, ReadOutcome, StreamId, WriteOutcome,
};
use quinn_proto::{ConnectionHandle, Dir};
use rustls::ClientConfig;

use super::network::{Network, Packet, SERVER, Server, client_config, context, random_seed, tls_context};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than a datagram takes to arrive, and shorter than a round trip.
const ONE_WAY: Duration = Duration::from_millis(15);

fn tls_client() -> Arc<ClientConfig> {
    Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data().build())
}

/// Returns a server that accepts early data, and a TLS client that has one of its sessions.
fn network_with_session() -> (Network, Arc<ClientConfig>) {
    let context = Context::new(&tls_context(&random_seed()), None, EarlyData::Accepted).unwrap();
    let mut network = Network::new(Server::new(&context));
    let tls = tls_client();
    let first = network.connect(client_config(&tls));
    assert!(!network.remote(first).connection.has_0rtt(), "there is no session");
    network.run(SECOND);
    let now = network.now;
    network.remote(first).connection.close(now, 0_u32.into(), Bytes::new());
    network.run(5 * SECOND);
    assert!(network.server.connections.is_empty());
    (network, tls)
}

/// Connects and writes a request as early data.
fn connect_early(
    network: &mut Network,
    tls: &Arc<ClientConfig>,
) -> (ConnectionHandle, quinn_proto::StreamId) {
    let handle = network.connect(client_config(tls));
    let connection = &mut network.remote(handle).connection;
    assert!(connection.has_0rtt());
    let id = connection.streams().open(Dir::Bi).unwrap();
    connection.send_stream(id).write(b"request").unwrap();
    connection.send_stream(id).finish().unwrap();
    (handle, id)
}

fn read(connection: &mut Connection, id: StreamId) -> (Vec<u8>, ReadOutcome) {
    let mut data = Vec::new();
    let outcome = connection.read(id, |chunk| data.extend_from_slice(chunk));
    (data, outcome)
}

#[test]
fn early_data_is_answered_after_one_round_trip() {
    let (mut network, tls) = network_with_session();
    let (handle, id) = connect_early(&mut network, &tls);
    network.run(ONE_WAY);

    let connection = &mut network.server.only().connection;
    assert!(connection.is_handshaking(), "the client may repeat an earlier connection");
    let stream = connection.accept(Direction::Bidirectional).unwrap();
    assert_eq!(read(connection, stream), (b"request".to_vec(), ReadOutcome::Finished));
    assert!(connection.open(Direction::Unidirectional).is_some());
    assert_eq!(connection.write(stream, &mut [Bytes::from_static(b"response")]), WriteOutcome::Complete);
    connection.finish(stream).unwrap();

    network.run(ONE_WAY);
    let remote = network.remote(handle);
    assert!(remote.connection.accepted_0rtt());
    let mut stream = remote.connection.recv_stream(id);
    let mut chunks = stream.read(true).unwrap();
    assert_eq!(chunks.next(100).unwrap().unwrap().bytes, b"response"[..]);
    let _ = chunks.finalize();

    network.run(SECOND);
    let served = network.server.only();
    assert!(served.events.contains(&Event::Established));
    assert_eq!(served.connection.handshake_kind(), HandshakeKind::Resumed);
}

#[test]
fn repeated_early_data_is_not_read() {
    let (mut network, tls) = network_with_session();
    network.sent.clear();
    let (handle, _) = connect_early(&mut network, &tls);
    network.run(ONE_WAY);
    assert!(network.server.only().connection.accept(Direction::Bidirectional).is_some());
    let flight: Vec<Packet> = network.sent.iter().filter(|packet| packet.is_for_server()).cloned().collect();
    let now = network.now;
    network.remote(handle).connection.close(now, 0_u32.into(), Bytes::new());
    // Until then, the server drops Initial packets with this connection ID.
    network.run(10 * SECOND);
    assert!(network.server.connections.is_empty());

    let accepted = network.server.accepted;
    for packet in flight {
        network.send(Packet { source: "203.0.113.66:1".parse().unwrap(), destination: SERVER, ..packet });
    }
    network.run(ONE_WAY);
    assert_eq!(network.server.accepted, accepted + 1);
    let connection = &mut network.server.only().connection;
    assert!(connection.accept(Direction::Bidirectional).is_none());
    network.run(SECOND);
    let events = &network.server.only().events;
    assert!(!events.contains(&Event::StreamsOpened(Direction::Bidirectional)), "{events:?}");
}

#[test]
fn session_of_another_process_gives_a_full_handshake() {
    let (_, tls) = network_with_session();
    let seed = random_seed();
    for early_data in [EarlyData::Accepted, EarlyData::Refused] {
        let context = Context::new(&tls_context(&seed), None, early_data).unwrap();
        let mut network = Network::new(Server::new(&context));
        let (handle, _) = connect_early(&mut network, &tls);
        network.run(ONE_WAY);
        assert!(network.server.only().connection.accept(Direction::Bidirectional).is_none());
        network.run(SECOND);
        let remote = network.remote(handle);
        assert!(remote.is_established() && !remote.connection.accepted_0rtt());
        assert_eq!(network.server.only().connection.handshake_kind(), HandshakeKind::Full);
    }
}

#[test]
fn early_data_is_not_offered_by_default() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let tls = tls_client();
    network.connect(client_config(&tls));
    network.run(SECOND);
    let second = network.connect(client_config(&tls));
    assert!(!network.remote(second).connection.has_0rtt());
}

#[test]
fn clients_get_a_session_for_each_of_two_connections() {
    let (mut network, tls) = network_with_session();
    let handles = [(); 2].map(|()| connect_early(&mut network, &tls).0);
    network.run(SECOND);
    for handle in handles {
        assert!(network.remote(handle).connection.accepted_0rtt());
    }
}
