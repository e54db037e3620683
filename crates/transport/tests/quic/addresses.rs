//! Addresses: migration, validation by tokens, version negotiation, stateless resets, and routing between processes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cannery_testkit::http3::{Forgery, Level};
use cannery_transport::quic::{
    Arrival, Context, Direction, EarlyData, Endpoint, Generation, Issuer, Received,
};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ConnectionError, ConnectionHandle, Dir, TokenMemoryCache, TokenStore, TransportConfig};

use super::network::{
    Acceptance, CLIENT, Fate, Network, Packet, SERVER, Server, client_config, context, random_seed,
    tls_client, tls_context,
};

const SECOND: Duration = Duration::from_secs(1);

/// An address that the client does not have.
const OTHER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 66)), 50_000);

/// Something that looks like an Initial packet, with the length of one and with this version and these
/// connection IDs.
fn long_header(version: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xc3];
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9, 0, 0x44, 0x96]);
    bytes.resize(length, 0);
    bytes
}

fn receive(network: &mut Network, bytes: &[u8], reply: &mut Vec<u8>) -> Received {
    let arrival = Arrival { source: CLIENT, destination: None, ecn: 0, bytes };
    network.server.endpoint.receive(network.now, &arrival, reply)
}

#[test]
fn connection_survives_new_addresses_of_the_client() {
    let (mut network, handle) = Network::connected();
    let addresses = ["198.51.100.1:50001", "203.0.113.9:50000", "198.51.100.1:50000"];
    for (count, address) in addresses.into_iter().enumerate() {
        network.client.address = address.parse().unwrap();
        network.remote(handle).connection.ping();
        network.run(2 * SECOND);
        let connection = &network.server.only().connection;
        assert_eq!(connection.remote_address(), address.parse::<SocketAddr>().unwrap());
        assert_eq!(connection.stats().migrations as usize, count + 1);
        assert!(network.remote(handle).loss().is_none());
    }
}

#[test]
fn spoofed_migration_returns_to_the_old_address() {
    let (mut network, handle) = Network::connected();
    network.path = Box::new(|packet| {
        if packet.is_for_server() {
            packet.source = "203.0.113.66:1".parse().unwrap();
        }
        Fate::Deliver
    });
    network.remote(handle).connection.ping();
    network.run(Duration::from_millis(11));
    network.path = Box::new(|_| Fate::Deliver);
    network.run(10 * SECOND);
    network.remote(handle).connection.ping();
    network.run(SECOND);
    assert_eq!(network.server.only().connection.remote_address(), CLIENT);
    assert!(network.remote(handle).loss().is_none());
}

/// The activity of the client when the datagrams of an established connection get forged addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    /// A PING.
    Ping,
    /// A request, which the server answers with more than a datagram holds.
    Request,
    /// A PING during a download.
    PingDuringDownload,
    /// A PATH_CHALLENGE that only probes the path.
    Probe,
}

/// The bytes that an address has sent and received.
type Traffic = BTreeMap<IpAddr, (usize, usize)>;

/// Lets the datagrams that the client sends during a step come from other addresses (in turns with its own),
/// and counts their bytes.
fn forge(network: &mut Network, addresses: u8, own_between: bool) -> Arc<Mutex<Traffic>> {
    let traffic = Arc::new(Mutex::new(Traffic::new()));
    let counted = traffic.clone();
    let mut number = 0_u8;
    network.path = Box::new(move |packet| {
        let mut traffic = counted.lock().unwrap();
        if packet.is_for_server() {
            number = number.wrapping_add(1);
            if !own_between || number.is_multiple_of(2) {
                let ip = IpAddr::V4(Ipv4Addr::new(203, 0, 113, number / 2 % addresses));
                packet.source = SocketAddr::new(ip, 50_000);
                traffic.entry(ip).or_default().0 += packet.bytes.len();
            }
        } else {
            traffic.entry(packet.destination.ip()).or_default().1 += packet.bytes.len();
        }
        Fate::Deliver
    });
    traffic
}

#[test]
fn forged_addresses_are_sent_three_times_as_much_as_they_send() {
    for attack in [Attack::Ping, Attack::Request, Attack::PingDuringDownload, Attack::Probe] {
        for (addresses, own_between) in [(1, false), (1, true), (7, true), (200, false)] {
            let forgery = Forgery::default();
            let tls = QuicClientConfig::try_from(tls_client(&["h3"])).unwrap();
            let mut network = Network::new(Server::new(&context(&random_seed())));
            let handle = network.connect(quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls))));
            network.run(SECOND);
            if attack == Attack::PingDuringDownload {
                request(&mut network, handle);
                network.run(Duration::from_millis(25));
                respond(&mut network);
            }

            let traffic = forge(&mut network, addresses, own_between);
            for _ in 0..40 {
                match attack {
                    Attack::Ping | Attack::PingDuringDownload => {}
                    Attack::Request => request(&mut network, handle),
                    Attack::Probe => {
                        forgery.push(Level::Application, [&[0x1a][..], &[7; 8]].concat());
                        request(&mut network, handle);
                    }
                }
                network.remote(handle).connection.ping();
                network.run_with(Duration::from_millis(50), respond);
            }
            network.run_with(5 * SECOND, respond);

            let traffic = traffic.lock().unwrap();
            let forged = traffic.iter().filter(|(address, _)| **address != CLIENT.ip());
            let mut sum = 0;
            for (address, (received, sent)) in forged {
                assert!(*sent <= 3 * received, "{attack:?}, {addresses}: {address} {sent} of {received}");
                sum += sent;
            }
            assert!(sum > 0, "{attack:?} with {addresses} addresses has an effect");
        }
    }
}

/// Sends a request.
fn request(network: &mut Network, handle: ConnectionHandle) {
    let connection = &mut network.remote(handle).connection;
    if let Some(id) = connection.streams().open(Dir::Bi) {
        connection.send_stream(id).write(b"request").unwrap();
        let _ = connection.send_stream(id).finish();
    }
}

/// Answers all requests.
fn respond(network: &mut Network) {
    for served in network.server.connections.values_mut() {
        while let Some(id) = served.connection.accept(Direction::Bidirectional) {
            served.connection.read(id, |_| {});
            served.connection.write(id, &mut [Bytes::from(content())]);
            let _ = served.connection.finish(id);
        }
    }
}

fn content() -> Vec<u8> {
    (0..200_000_u32).map(|position| position.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect()
}

/// The client moves during a download: its address changes, with or without a PING. Its first datagrams are
/// too short to allow a whole datagram of the server, so the PATH_CHALLENGE frame should be sent without
/// the stream data in its packet.
#[test]
fn download_goes_on_at_another_address() {
    for address in ["198.51.100.1:50001", "203.0.113.9:50000"] {
        for (delay_ms, loses_first) in [(25, false), (40, false), (60, false), (95, false), (60, true)] {
            let (mut network, handle) = Network::connected();
            let before = network.server.only().connection.validated_address();
            assert_eq!(before, Some(CLIENT));
            request(&mut network, handle);
            network.run_with(Duration::from_millis(delay_ms), respond);
            network.client.address = address.parse().unwrap();
            network.remote(handle).connection.ping();
            if loses_first {
                let mut left = 1;
                network.path = Box::new(move |packet| {
                    let is_lost = !packet.is_for_server() && packet.bytes.len() < 200 && left > 0;
                    left -= i32::from(is_lost);
                    if is_lost { Fate::Drop } else { Fate::Deliver }
                });
            }

            let mut received = Vec::new();
            let mut is_finished = false;
            network.run_with(20 * SECOND, |network| {
                respond(network);
                let id = quinn_proto::StreamId::new(quinn_proto::Side::Client, Dir::Bi, 0);
                let mut stream = network.remote(handle).connection.recv_stream(id);
                let Ok(mut chunks) = stream.read(true) else { return };
                while let Ok(chunk) = chunks.next(usize::MAX) {
                    let Some(chunk) = chunk else {
                        is_finished = true;
                        break;
                    };
                    received.extend_from_slice(&chunk.bytes);
                }
                let _ = chunks.finalize();
            });
            assert!(received == content() && is_finished, "{address} {delay_ms}: {} bytes", received.len());
            let served = network.server.only();
            assert_eq!(served.connection.validated_address(), Some(address.parse().unwrap()));
        }
    }
}

#[test]
fn address_is_believed_when_it_has_answered() {
    let (mut network, handle) = Network::connected();
    forge(&mut network, 1, false);
    request(&mut network, handle);
    network.run(Duration::from_millis(200));
    let connection = &mut network.server.only().connection;
    assert_ne!(connection.remote_address(), CLIENT);
    assert!(connection.accept(Direction::Bidirectional).is_some(), "the request has arrived");
    assert_eq!(connection.validated_address(), Some(CLIENT));

    // The client, at its address again.
    network.path = Box::new(|_| Fate::Deliver);
    network.run(20 * SECOND);
    network.remote(handle).connection.ping();
    network.run(5 * SECOND);
    assert!(network.remote(handle).loss().is_none());
    let connection = &mut network.server.only().connection;
    assert_eq!((connection.remote_address(), connection.validated_address()), (CLIENT, Some(CLIENT)));
}

#[test]
fn datagrams_go_back_to_where_they_were_sent() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_millis(15));
    let incoming = network.server.held.pop().unwrap();
    let transmit = network.server.endpoint.refuse(incoming, &mut Vec::new());
    assert_eq!((transmit.source, transmit.destination), (Some(SERVER.ip()), CLIENT));
    assert_eq!((transmit.ecn, transmit.segment_bytes), (0, None));
}

#[test]
fn ecn_is_used_when_the_path_carries_it() {
    let (network, _) = Network::connected();
    assert!(network.sent.iter().any(|packet| !packet.is_for_server() && packet.ecn == 2));
}

#[test]
fn path_is_probed_for_longer_datagrams() {
    let (mut network, handle) = Network::connected();
    network.remote(handle).connection.ping();
    network.run(5 * SECOND);
    assert_eq!(network.server.only().connection.stats().path_bytes_max, 1452);

    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.path = Box::new(|packet| if packet.bytes.len() > 1300 { Fate::Drop } else { Fate::Deliver });
    network.connect(client_config(&tls_client(&["h3"])));
    network.run(10 * SECOND);
    let bytes = network.server.only().connection.stats().path_bytes_max;
    assert!((1200..=1300).contains(&bytes), "{bytes}");
}

#[test]
fn token_of_an_earlier_connection_validates_the_address_once() {
    let seed = random_seed();
    let tls = tls_client(&["h3"]);
    let store = Arc::new(TokenMemoryCache::default());
    let config = || {
        let mut config = client_config(&tls);
        config.token_store(store.clone());
        config
    };
    let mut network = Network::new(Server::new(&context(&seed)));
    network.connect(config());
    network.run(SECOND);

    // Another process with the seed accepts the token.
    let token = store.take("localhost").expect("the server has sent a token");
    assert!(store.take("localhost").is_none(), "one token");
    let mut network = Network::new(Server::new(&context(&seed)));
    network.server.acceptance = Acceptance::Held;
    for is_validated in [true, false] {
        store.insert("localhost", token.clone());
        let handle = network.connect(config());
        network.run(Duration::from_millis(15));
        let incoming = network.server.held.pop().unwrap();
        assert_eq!(incoming.is_validated(), is_validated);
        network.server.endpoint.ignore(incoming);
        network.client.connections.remove(&handle);
    }

    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    store.insert("localhost", token);
    network.connect(config());
    network.run(Duration::from_millis(15));
    assert!(!network.server.held[0].is_validated(), "another seed");
}

#[test]
fn token_is_bound_to_the_address() {
    let seed = random_seed();
    let store = Arc::new(TokenMemoryCache::default());
    let mut config = client_config(&tls_client(&["h3"]));
    config.token_store(store.clone());
    let mut network = Network::new(Server::new(&context(&seed)));
    network.connect(config.clone());
    network.run(SECOND);

    network.server.acceptance = Acceptance::Held;
    network.client.address = "203.0.113.9:50000".parse().unwrap();
    network.connect(config);
    network.run(Duration::from_millis(15));
    assert!(!network.server.held[0].is_validated());
}

#[test]
fn retry_token_of_another_address_is_refused() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_millis(15));
    let incoming = network.server.held.pop().unwrap();
    let mut reply = Vec::new();
    let transmit = network.server.endpoint.retry(incoming, &mut reply).unwrap();
    network.send(Packet { source: SERVER, destination: transmit.destination, ecn: 0, bytes: reply });
    network.path = Box::new(|packet| {
        if packet.is_for_server() {
            packet.source = "203.0.113.66:1".parse().unwrap();
        }
        packet.destination = if packet.is_for_server() { SERVER } else { CLIENT };
        Fate::Deliver
    });
    network.run(SECOND);
    assert!(network.server.held.is_empty());
    let loss = network.remote(handle).loss().unwrap().to_string();
    assert!(loss.contains("invalid Retry Token"), "{loss}");
}

#[test]
fn unknown_version_is_negotiated_for_long_datagrams_only() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let mut reply = Vec::new();
    let received = receive(&mut network, &long_header(0x6b33_43cf, 1200), &mut reply);
    let Received::Reply(transmit) = received else { panic!("{received:?}") };
    assert_eq!(transmit.bytes, reply.len());
    assert_eq!(reply[1..5], [0; 4]);
    // The connection IDs are exchanged.
    assert_eq!(reply[5..19], [4, 9, 9, 9, 9, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    let (versions, rest) = reply[19..].as_chunks::<4>();
    assert!(rest.is_empty());
    assert!(versions.contains(&[0, 0, 0, 1]) && versions.len() == 2);

    let received = receive(&mut network, &long_header(0x6b33_43cf, 1200), &mut reply);
    assert!(matches!(received, Received::Dropped), "too soon after the first");
    network.now += Duration::from_millis(10);
    let received = receive(&mut network, &long_header(0x6b33_43cf, 1200), &mut reply);
    assert!(matches!(received, Received::Reply(_)));

    network.now += SECOND;
    let received = receive(&mut network, &long_header(0x6b33_43cf, 1199), &mut reply);
    assert!(matches!(received, Received::Dropped));
}

#[test]
fn client_with_another_version_fails() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let mut config = client_config(&tls_client(&["h3"]));
    config.version(0xff00_001d);
    let handle = network.connect(config);
    network.run(SECOND);
    assert_eq!(network.remote(handle).loss(), Some(&ConnectionError::VersionMismatch));
}

#[test]
fn process_with_the_seed_resets_connections_of_its_predecessor() {
    for (is_same_seed, expected) in [(true, true), (false, false)] {
        let seed = random_seed();
        let mut network = Network::new(Server::new(&context(&seed)));
        let mut config = client_config(&tls_client(&["h3"]));
        config.transport_config(Arc::new(TransportConfig::default()));
        let handle = network.connect(config);
        network.run(SECOND);

        let seed = if is_same_seed { seed } else { random_seed() };
        let endpoint = Endpoint::new(&context(&seed), 0, Generation::new(0), [8; 32]);
        network.server = Server::with_endpoint(endpoint);
        network.remote(handle).connection.ping();
        network.run(SECOND);
        assert_eq!(network.remote(handle).loss() == Some(&ConnectionError::Reset), expected);
        assert_eq!(network.server.replies.is_empty(), !expected);
        for reply in &network.server.replies {
            let longest =
                network.sent.iter().filter(|packet| packet.is_for_server()).map(|p| p.bytes.len()).max();
            assert!(reply.len() < longest.unwrap());
        }
    }
}

#[test]
fn stateless_resets_are_shorter_than_their_cause_and_rare() {
    let seed = random_seed();
    let (mut network, id) = connection_id(&context(&seed));
    network.server = Server::with_endpoint(Endpoint::new(&context(&seed), 0, Generation::new(0), [8; 32]));

    let mut reply = Vec::new();
    for length in 1 + id.len()..200 {
        network.now += 10 * SECOND;
        let mut datagram = [&[0x40], &id[..]].concat();
        datagram.resize(length, 0x55);
        match receive(&mut network, &datagram, &mut reply) {
            Received::Reply(transmit) => assert!(transmit.bytes < length && transmit.bytes >= 21),
            received => assert!(matches!(received, Received::Dropped) && length < 25, "{length}"),
        }
    }

    let datagram = [&[0x40], &id[..], &[0x55; 100]].concat();
    let mut replies = 0;
    for _ in 0..1000 {
        network.now += Duration::from_millis(1);
        replies += usize::from(matches!(receive(&mut network, &datagram, &mut reply), Received::Reply(_)));
    }

    assert_eq!(replies, 32, "a burst");
    for _ in 0..3 {
        let mut replies = 0;
        for _ in 0..1000 {
            network.now += Duration::from_millis(1);
            replies +=
                usize::from(matches!(receive(&mut network, &datagram, &mut reply), Received::Reply(_)));
        }
        assert!((9..=11).contains(&replies), "{replies} in a second");
    }
}

#[test]
fn late_datagrams_of_a_connection_that_its_client_has_closed_are_not_answered() {
    let (mut network, handle) = Network::connected();
    network.remote(handle).connection.ping();
    network.run(SECOND);
    let mut to_server = network.sent.iter().filter(|packet| packet.is_for_server());
    let [first, mut last] =
        [to_server.next(), to_server.next_back()].map(|packet| packet.unwrap().bytes.clone());
    assert!(first[0] >= 0x80 && last[0] < 0x80);
    // A reset is shorter than its cause.
    last.resize(100, 0);

    let now = network.now;
    network.remote(handle).connection.close(now, 0_u32.into(), Bytes::new());
    network.run(SECOND);
    assert_eq!(network.server.endpoint.connections(), 0);
    assert!(network.sent.last().unwrap().is_for_server(), "the server has answered the close");
    let mut reply = Vec::new();
    for datagram in [&first, &last] {
        assert!(matches!(receive(&mut network, datagram, &mut reply), Received::Dropped));
    }

    // A client with another address might need a reset.
    let source = "203.0.113.9:50000".parse().unwrap();
    let elsewhere = Arrival { source, destination: None, ecn: 0, bytes: &last };
    network.now += Duration::from_millis(1);
    let received = network.server.endpoint.receive(network.now, &elsewhere, &mut reply);
    assert!(matches!(received, Received::Reply(_)));

    network.now += 10 * SECOND;
    assert!(matches!(receive(&mut network, &last, &mut reply), Received::Reply(_)));
    let Received::Incoming(incoming) = receive(&mut network, &first, &mut reply) else { panic!() };
    network.server.endpoint.ignore(incoming);
}

/// A client's second datagrams have an Initial packet, too, with an ID of the server's.
#[test]
fn late_initial_packet_of_a_connection_that_its_client_has_closed_begins_none() {
    let (mut network, handle) = Network::connected();
    let id = used_id(&mut network, handle);
    close(&mut network, handle);

    let mut begun_elsewhere = 0;
    for number in 0..=u8::MAX {
        let mut datagram = [&[0xc3, 0, 0, 0, 1, 10][..], &id, &[4, 9, 9, 9, 9, 0, 0x44, 0x90]].concat();
        datagram.resize(1200, number);
        assert!(matches!(receive(&mut network, &datagram, &mut Vec::new()), Received::Invalid));

        // The keys do not fit the packet, but the reserved bits might be 0 by chance.
        let arrival = Arrival { source: OTHER, destination: None, ecn: 0, bytes: &datagram };
        let received = network.server.endpoint.receive(network.now, &arrival, &mut Vec::new());
        if let Received::Incoming(incoming) = received {
            begun_elsewhere += 1;
            network.server.endpoint.ignore(incoming);
        }
    }
    assert!(begun_elsewhere > 0);
}

/// An attacker can send from a forged address, whose owner may be a client that needs a stateless reset for
/// another connection.
#[test]
fn closed_connection_prevents_no_resets_to_a_forged_address() {
    let context = context(&random_seed());
    let mut network = Network::new(Server::new(&context));
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(SECOND);
    let id = used_id(&mut network, handle);
    let mut reply = Vec::new();
    let mut gets_reset = |network: &mut Network, source| {
        let datagram = [&[0x40], &id[..], &[0x55; 100]].concat();
        let arrival = Arrival { source, destination: None, ecn: 0, bytes: &datagram };
        matches!(network.server.endpoint.receive(network.now, &arrival, &mut reply), Received::Reply(_))
    };

    // The path to this address has not been validated.
    network.path = Box::new(|packet| {
        if packet.is_for_server() {
            packet.source = OTHER;
        }
        Fate::Deliver
    });
    network.remote(handle).connection.ping();
    network.run(Duration::from_millis(11));
    assert_eq!(network.server.only().connection.remote_address(), OTHER);
    close(&mut network, handle);
    assert!(gets_reset(&mut network, OTHER));

    // The client has received nothing.
    let mut network = Network::new(Server::new(&context));
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_millis(11));
    assert_eq!(network.server.accepted, 1);
    close(&mut network, handle);
    assert!(gets_reset(&mut network, CLIENT));
}

#[test]
fn connection_that_its_client_closes_during_the_handshake_is_dropped() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_millis(11));
    let endpoint = &network.server.endpoint;
    assert_eq!((network.server.accepted, endpoint.connections(), endpoint.half_open()), (1, 1, 1));

    let now = network.now;
    network.remote(handle).connection.close(now, 0_u32.into(), Bytes::new());
    network.run(SECOND);
    let endpoint = &network.server.endpoint;
    assert_eq!((network.server.connections.len(), endpoint.connections(), endpoint.half_open()), (0, 0, 0));
    let first = network.sent[0].bytes.clone();
    assert!(matches!(receive(&mut network, &first, &mut Vec::new()), Received::Dropped));

    // The next connection gets its key.
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(SECOND);
    assert!(network.remote(handle).is_established());
    assert_eq!(network.server.connections.keys().collect::<Vec<_>>(), [&0]);
}

/// Closes the only connection at the client.
fn close(network: &mut Network, handle: ConnectionHandle) {
    let now = network.now;
    network.remote(handle).connection.close(now, 0_u32.into(), Bytes::new());
    network.run(SECOND);
    assert_eq!(network.server.endpoint.connections(), 0);
}

/// Returns a connected network and the server's connection ID that the client uses.
fn connection_id(context: &Context) -> (Network, Vec<u8>) {
    let mut network = Network::new(Server::new(context));
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(SECOND);
    let id = used_id(&mut network, handle);
    (network, id)
}

/// Returns the server's connection ID that the client uses, without the server ID for load balancers.
fn used_id(network: &mut Network, handle: ConnectionHandle) -> Vec<u8> {
    network.remote(handle).connection.ping();
    network.run(SECOND);
    let last = network.sent.iter().rfind(|packet| packet.is_for_server()).unwrap();
    assert!(last.bytes[0] < 0x80);
    last.bytes[1..=10].to_vec()
}

#[test]
fn issuer_is_known_to_all_processes_with_the_seed() {
    let seed = random_seed();
    for server_id in [None, Some(*b"server-1")] {
        let tls = tls_context(&seed);
        let context = Context::new(&tls, server_id, EarlyData::Refused).unwrap();
        let successor = Context::new(&tls_context(&seed), server_id, EarlyData::Refused).unwrap();
        let issuer = Issuer { worker: 3, generation: Generation::new(1) };
        let endpoint = Endpoint::new(&context, issuer.worker, issuer.generation, [9; 32]);
        let mut network = Network::new(Server::with_endpoint(endpoint));
        let handle = network.connect(client_config(&tls_client(&["h3"])));
        network.run(SECOND);
        network.remote(handle).connection.ping();
        network.run(SECOND);

        let mut to_server = network.sent.iter().filter(|packet| packet.is_for_server());
        assert_eq!(successor.issuer_of(&to_server.next().unwrap().bytes), None, "the client's ID");
        let last = to_server.next_back().unwrap();
        assert_eq!(successor.issuer_of(&last.bytes), Some(issuer));
        assert_eq!(successor.id_layout().worker_of(&last.bytes), 3);
        let id_bytes = successor.id_layout().id_bytes();
        assert_eq!(id_bytes, if server_id.is_some() { 18 } else { 10 });
        if let Some(server_id) = server_id {
            assert_eq!(last.bytes[2..10], server_id);
        }
    }
}

#[test]
fn two_generations_serve_side_by_side() {
    let seed = random_seed();
    let context = context(&seed);
    let (mut network, first) = {
        let mut network = Network::new(Server::new(&context));
        let first = network.connect(client_config(&tls_client(&["h3"])));
        network.run(SECOND);
        (network, first)
    };

    // The new process receives everything, and forwards datagrams of the old generation.
    let mut old = std::mem::replace(
        &mut network.server,
        Server::with_endpoint(Endpoint::new(&context, 0, Generation::new(1), [8; 32])),
    );

    let second = network.connect(client_config(&tls_client(&["h3"])));
    network.remote(first).connection.ping();
    for _ in 0..200 {
        let mut forwarded = Vec::new();
        let context = &context;
        network.intercept(|packet| {
            let issuer = context.issuer_of(&packet.bytes);
            let is_old = issuer.is_some_and(|issuer| issuer.generation == Generation::new(0));
            if is_old {
                forwarded.push(packet.clone());
            }
            is_old
        });

        let mut sent = Vec::new();
        for packet in &forwarded {
            old.receive(network.now, packet, &mut sent);
        }
        old.advance(network.now, &mut sent);
        sent.into_iter().for_each(|packet| network.send(packet));
        network.run(Duration::from_millis(5));
    }

    assert!(network.remote(second).is_established());
    assert!(network.remote(first).loss().is_none());
    assert_eq!((old.connections.len(), network.server.connections.len()), (1, 1));
    assert!(network.server.replies.is_empty());
}
