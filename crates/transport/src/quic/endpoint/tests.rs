//! Unit tests of an endpoint: recovery from a panic, and which datagrams cost time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

use cannery_testkit::tls::ClientOptions;
use quinn_proto::crypto::rustls::QuicClientConfig;

use super::*;
use crate::quic::EarlyData;
use crate::{Certificates, Protocol, SelfSigned, Settings, Version};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 443);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);

fn endpoint() -> Endpoint {
    let now = SystemTime::now();
    let tls = crate::Context::new(Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now).unwrap(),
        seed: None,
        versions: vec![Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    });
    Endpoint::new(
        &Context::new(&tls.unwrap(), None, EarlyData::Refused).unwrap(),
        0,
        Generation::default(),
        [1; 32],
    )
}

/// Returns the first datagram of a client.
fn first_datagram(now: Instant) -> Vec<u8> {
    let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build());
    let config = quinn_proto::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut client = quinn_proto::Endpoint::new(Arc::default(), None, true, None);
    let (_, mut connection) = client.connect(now, config, SERVER, "localhost").unwrap();
    let mut datagram = Vec::new();
    assert!(connection.poll_transmit(now, 1, &mut datagram).is_some());
    datagram
}

fn receive(endpoint: &mut Endpoint, now: Instant, bytes: &[u8]) -> Received {
    endpoint.receive(now, &Arrival { source: CLIENT, destination: None, ecn: 0, bytes }, &mut Vec::new())
}

#[test]
fn recovery_removes_a_connection_that_was_not_returned() {
    let now = Instant::now();
    let mut endpoint = endpoint();
    let Received::Incoming(kept) = receive(&mut endpoint, now, &first_datagram(now)) else { panic!() };
    let mut kept = endpoint.accept(now, kept, &mut Vec::new()).unwrap();

    // As if the library had panicked after it had registered the connection.
    let datagram = first_datagram(now);
    let Received::Incoming(lost) = receive(&mut endpoint, now, &datagram) else { panic!() };
    endpoint.half_open.remove(&lost.id);
    drop(endpoint.quinn.accept(lost.quinn, now, &mut Vec::new(), None).unwrap());
    assert!(matches!(receive(&mut endpoint, now, &datagram), Received::Connection(..)));
    assert_eq!((endpoint.connections(), endpoint.half_open()), (2, 1));

    endpoint.recover();
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    assert!(matches!(receive(&mut endpoint, now, &datagram), Received::Incoming(_)));
    endpoint.maintain(now, &mut kept);
    endpoint.remove(kept);
    assert_eq!(endpoint.connections(), 0);
}

#[test]
fn ended_connection_does_not_affect_the_next_with_its_key() {
    let now = Instant::now();
    let mut endpoint = endpoint();
    let accept = |endpoint: &mut Endpoint| {
        let Received::Incoming(incoming) = receive(endpoint, now, &first_datagram(now)) else { panic!() };
        endpoint.accept(now, incoming, &mut Vec::new()).unwrap()
    };
    let mut ended = accept(&mut endpoint);
    ended.close(now, 0, b"");
    ended.handle_timeout(now + Duration::from_secs(60));
    endpoint.maintain(now, &mut ended);
    assert!(ended.is_drained());

    let next = accept(&mut endpoint);
    assert_eq!(next.key(), ended.key());
    endpoint.maintain(now, &mut ended);
    endpoint.remove(ended);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 1));
    endpoint.remove(next);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (0, 0));
}

#[test]
fn datagrams_of_half_open_connections_are_recognized() {
    let now = Instant::now();
    let mut endpoint = endpoint();
    let [accepted, refused, other] = [(); 3].map(|()| first_datagram(now));
    assert!(!endpoint.is_of_half_open(&accepted));
    let Received::Incoming(incoming) = receive(&mut endpoint, now, &accepted) else { panic!() };
    assert!(endpoint.is_of_half_open(&accepted) && !endpoint.is_of_half_open(&other));
    let connection = endpoint.accept(now, incoming, &mut Vec::new()).unwrap();
    assert!(endpoint.is_of_half_open(&accepted));

    let Received::Incoming(incoming) = receive(&mut endpoint, now, &refused) else { panic!() };
    assert!(endpoint.is_of_half_open(&refused));
    let _ = endpoint.refuse(incoming, &mut Vec::new());
    assert!(!endpoint.is_of_half_open(&refused));

    // Incomplete ones, one with an ID that is too long, and one with a short header.
    for length in 0..14 {
        assert!(!endpoint.is_of_half_open(&accepted[..length.min(accepted.len())]), "{length}");
    }
    assert!(!endpoint.is_of_half_open(&[&[0xc0, 0, 0, 0, 1, 21][..], &[0; 30]].concat()));
    assert!(!endpoint.is_of_half_open(&[&[0x40][..], &accepted[1..]].concat()));
    endpoint.remove(connection);
    assert!(!endpoint.is_of_half_open(&accepted));
}

#[test]
fn datagram_is_invalid_only_if_keys_were_derived_for_it() {
    let now = Instant::now();
    let mut endpoint = endpoint();
    // The reserved bits are set (RFC 9000 §17.2).
    let mut invalid = first_datagram(now);
    invalid[0] ^= 0x0c;
    assert!(matches!(receive(&mut endpoint, now, &invalid), Received::Invalid));
    assert!(matches!(receive(&mut endpoint, now, &invalid[..1199]), Received::Dropped), "too short");

    let kept = first_datagram(now);
    let Received::Incoming(incoming) = receive(&mut endpoint, now, &kept) else { panic!() };
    assert!(matches!(receive(&mut endpoint, now, &kept), Received::Dropped), "kept until it is accepted");
    endpoint.ignore(incoming);

    let ids = 0..QUIC_HALF_OPEN_MAX as u64;
    let ids = ids.map(|number| (ConnectionId::new(&number.to_be_bytes()), HalfOpen::Accepted));
    endpoint.half_open.extend(ids);
    endpoint.update_admission();
    assert!(matches!(receive(&mut endpoint, now, &invalid), Received::Dropped), "no room");
}
