//! Handshakes: application protocol, resumption, server name, and the limits of those in progress.

use std::time::{Duration, SystemTime};

use cannery_transport::quic::{Context, EarlyData};
use cannery_transport::{Certificates, HandshakeKind, SelfSigned};
use rustls::pki_types::CertificateDer;

use super::network::{
    Acceptance, CLIENT, Fate, Network, Packet, SERVER, Server, client_config, context, random_seed,
    tls_client, tls_context,
};

#[test]
fn handshake_establishes_both_sides() {
    let (mut network, handle) = Network::connected();
    let served = network.server.only();
    assert!(!served.connection.is_handshaking());
    assert_eq!(served.connection.handshake_kind(), HandshakeKind::Full);
    assert_eq!(served.connection.server_name().as_deref(), Some("localhost"));
    assert_eq!(network.server.endpoint.half_open(), 0);
    assert_eq!(network.server.endpoint.connections(), 1);
    assert!(!network.remote(handle).connection.is_handshaking());
}

#[test]
fn client_without_http3_is_refused() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let handle = network.connect(client_config(&tls_client(&["h2"])));
    network.run(Duration::from_secs(5));
    let loss = network.remote(handle).loss().unwrap().to_string();
    assert!(loss.contains("error 120"), "no_application_protocol: {loss}");
    assert_eq!(network.server.endpoint.half_open(), 0);
}

#[test]
fn session_resumes_at_another_process_with_the_seed() {
    let seed = random_seed();
    let tls = tls_client(&["h3"]);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut network = Network::new(Server::new(&context(&seed)));
        let handle = network.connect(client_config(&tls));
        assert!(!network.remote(handle).connection.has_0rtt(), "early data is not offered");
        network.run(Duration::from_secs(1));
        assert_eq!(network.server.only().connection.handshake_kind(), kind);
    }

    let mut other = Network::new(Server::new(&context(&random_seed())));
    other.connect(client_config(&tls));
    other.run(Duration::from_secs(1));
    assert_eq!(other.server.only().connection.handshake_kind(), HandshakeKind::Full);
}

#[test]
fn key_updates_by_the_client_are_followed() {
    let (mut network, handle) = Network::connected();
    for _ in 0..5 {
        network.remote(handle).connection.force_key_update();
        network.remote(handle).connection.ping();
        network.run(Duration::from_secs(2));
        assert!(network.remote(handle).loss().is_none());
    }
    assert_eq!(network.server.connections.len(), 1);
}

#[test]
fn replaced_certificates_are_used_by_new_connections() {
    let now = SystemTime::now();
    let tls = tls_context(&random_seed());
    let mut network = Network::new(Server::new(&Context::new(&tls, None, EarlyData::Refused).unwrap()));
    let mut identities = Vec::new();
    for _ in 0..2 {
        let handle = network.connect(client_config(&tls_client(&["h3"])));
        network.run(Duration::from_secs(1));
        let identity = network.remote(handle).connection.crypto_session().peer_identity().unwrap();
        identities.push(*identity.downcast::<Vec<CertificateDer<'static>>>().unwrap());
        let names = ["localhost".to_owned()];
        let replacement = Certificates::self_signed(SelfSigned::Ecdsa, &names, now).unwrap();
        tls.replace_certificates(replacement, now).unwrap();
    }
    assert_ne!(identities[0], identities[1]);
}

/// Counts the Initial packets of a client's first flight.
fn is_client_initial(packet: &Packet) -> bool {
    packet.is_for_server() && packet.bytes[0] & 0xf0 == 0xc0
}

#[test]
fn hello_in_two_datagrams_may_arrive_in_reverse() {
    for delayed in [None, Some(0), Some(1)] {
        for acceptance in [Acceptance::Immediate, Acceptance::Held] {
            let mut network = Network::new(Server::new(&context(&random_seed())));
            network.server.acceptance = acceptance;

            let mut count = 0;
            network.path = Box::new(move |packet| {
                let index = count;
                count += usize::from(is_client_initial(packet));
                match delayed {
                    Some(delayed) if is_client_initial(packet) && index == delayed => {
                        Fate::Delay(Duration::from_millis(50))
                    }
                    _ => Fate::Deliver,
                }
            });

            let handle = network.connect(client_config(&tls_client(&["h3"])));
            network.run(Duration::from_millis(60));
            let initials = network.sent.iter().filter(|packet| is_client_initial(packet)).count();
            assert!(initials >= 2, "a post-quantum key share takes two datagrams");

            network.accept_held();
            network.run(Duration::from_secs(1));
            assert!(network.remote(handle).is_established(), "{delayed:?}");
        }
    }
}

#[test]
fn unvalidated_handshake_sends_at_most_three_times_what_it_received() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let mut received = 0;
    let mut sent = 0;

    network.path = Box::new(move |packet| {
        if !packet.is_for_server() {
            sent += packet.bytes.len();
            assert!(sent <= 3 * received, "{sent} for {received}");
            return Fate::Drop;
        }
        // The client's address is forged: it never answers.
        if received < 2400 {
            received += packet.bytes.len();
            return Fate::Deliver;
        }
        Fate::Drop
    });

    network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_secs(60));
    assert!(network.sent.iter().any(|packet| !packet.is_for_server()));
    assert_eq!(network.server.endpoint.half_open(), 0);
}

#[test]
fn many_half_open_connections_require_a_retry_then_none_is_admitted() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    let tls = tls_client(&["h3"]);
    for _ in 0..256 {
        network.connect(client_config(&tls));
    }
    network.run(Duration::from_millis(15));
    assert_eq!((network.server.held.len(), network.server.replies.len()), (256, 0));
    assert_eq!(network.server.endpoint.half_open(), 256);

    // All others prove their address before they are held.
    for _ in 0..1000 {
        network.connect(client_config(&tls));
    }
    network.run(Duration::from_millis(15));
    assert_eq!(network.server.held.len(), 256);
    // A hello takes two datagrams, and each is answered.
    assert_eq!(network.server.replies.len(), 2000);
    assert!(network.server.replies.iter().all(|reply| reply[0] & 0xf0 == 0xf0), "Retry packets");

    network.run(Duration::from_millis(30));
    assert_eq!(network.server.held.len(), 1024);
    assert!(network.server.held.iter().filter(|incoming| incoming.is_validated()).count() == 768);

    let replies = network.server.replies.len();
    let late = network.connect(client_config(&tls));
    network.run(Duration::from_millis(30));
    assert_eq!((network.server.held.len(), network.server.replies.len()), (1024, replies));

    network.server.acceptance = Acceptance::Immediate;
    network.accept_held();
    network.run(Duration::from_secs(10));
    assert!(network.remote(late).is_established(), "its Initial packet is repeated");
    assert_eq!(network.server.endpoint.half_open(), 0);
    assert_eq!(network.server.accepted, 1257);
}

#[test]
fn attempts_can_be_refused_ignored_and_retried() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    network.server.acceptance = Acceptance::Held;
    let tls = tls_client(&["h3"]);
    let mut reply = Vec::new();
    let held = |network: &mut Network| {
        let handle = network.connect(client_config(&tls));
        network.run(Duration::from_millis(15));
        (handle, network.server.held.pop().unwrap())
    };

    let (refused, incoming) = held(&mut network);
    let transmit = network.server.endpoint.refuse(incoming, &mut reply);
    network.send(Packet { source: SERVER, destination: transmit.destination, ecn: 0, bytes: reply.clone() });
    network.run(Duration::from_millis(15));
    assert!(network.remote(refused).loss().unwrap().to_string().contains("refused"));

    let (_, incoming) = held(&mut network);
    assert_eq!(incoming.remote_address(), CLIENT);
    network.server.endpoint.ignore(incoming);
    assert_eq!(network.server.endpoint.half_open(), 0);
    network.client.connections.clear();

    let (retried, incoming) = held(&mut network);
    let transmit = network.server.endpoint.retry(incoming, &mut reply).unwrap();
    network.send(Packet { source: SERVER, destination: transmit.destination, ecn: 0, bytes: reply.clone() });
    network.run(Duration::from_millis(25));
    let incoming = network.server.held.pop().unwrap();
    assert!(incoming.is_validated());
    let incoming = network.server.endpoint.retry(incoming, &mut reply).unwrap_err();
    network.server.held.push(*incoming);
    network.accept_held();
    network.run(Duration::from_secs(1));
    assert!(network.remote(retried).is_established());
}

#[test]
fn removed_connection_leaves_nothing_in_the_endpoint() {
    let (mut network, _) = Network::connected();
    let served = network.server.connections.pop_first().unwrap().1;
    network.server.endpoint.remove(served.connection);
    assert_eq!(network.server.endpoint.connections(), 0);
    network.server.endpoint.recover();

    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_secs(1));
    assert!(network.remote(handle).is_established());
}

#[test]
fn recovery_keeps_established_connections() {
    let (mut network, first) = Network::connected();
    network.server.endpoint.recover();
    network.remote(first).connection.ping();
    let second = network.connect(client_config(&tls_client(&["h3"])));
    network.run(Duration::from_secs(1));
    assert!(network.remote(second).is_established() && network.remote(first).loss().is_none());
    assert_eq!(network.server.endpoint.connections(), 2);
}
