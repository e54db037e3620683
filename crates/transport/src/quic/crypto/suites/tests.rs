//! Unit tests of the suites. Each should protect packets just like that of `rustls` does, with keys that are
//! dropped and expanded again.

use std::sync::Arc;
use std::time::SystemTime;

use cannery_testkit::tls::ClientOptions;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, DirectionalKeys, KeyChange, Keys, ServerConnection, Version};

use super::*;
use crate::quic::drop_unused_keys;
use crate::{Certificates, Context, Protocol, Seed, SelfSigned, Settings};

/// Performs a handshake with a client that offers one suite of `rustls`. Returns the 1-RTT keys of both the
/// server and the client.
fn handshake(suite: SupportedCipherSuite) -> [Keys; 2] {
    let now = SystemTime::now();
    let context = Context::new(Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now).unwrap(),
        seed: Some(Seed::generate(now).unwrap()),
        versions: vec![crate::Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    });
    let config = Arc::new(context.unwrap().quic_config(provider()).unwrap());
    let mut server = ServerConnection::new(config, Version::V1, Vec::new()).unwrap();

    let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
    let tls = Arc::new(ClientOptions::default().tls13().provider(provider).protocols(&["h3"]).build());
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(tls, Version::V1, name, Vec::new()).unwrap();

    let (mut server_keys, mut client_keys) = (None, None);
    while server_keys.is_none() || client_keys.is_none() {
        let mut messages = Vec::new();
        if let Some(KeyChange::OneRtt { keys, .. }) = client.write_hs(&mut messages) {
            client_keys = Some(keys);
        }
        server.read_hs(&messages).unwrap();

        // Messages under new keys are written by another call.
        for _ in 0..3 {
            let mut messages = Vec::new();
            if let Some(KeyChange::OneRtt { keys, .. }) = server.write_hs(&mut messages) {
                server_keys = Some(keys);
            }
            client.read_hs(&messages).unwrap();
        }
    }
    assert_eq!(server.negotiated_cipher_suite().map(|suite| suite.suite()), Some(suite.suite()));
    [server_keys.unwrap(), client_keys.unwrap()]
}

/// Protects a packet with a short header (RFC 9000 §17.3.1) and then removes its protection.
fn exchange(number: u64, sender: &DirectionalKeys, receiver: &DirectionalKeys) {
    const HEADER: [u8; 5] = [0x43, 1, 2, 3, 4];
    const PAYLOAD: [u8; 100] = [0x61; 100];
    let mut packet = [&HEADER[..], &PAYLOAD].concat();
    let (header, payload) = packet.split_at_mut(HEADER.len());
    let tag = sender.packet.encrypt_in_place(number, header, payload).unwrap();
    packet.extend(tag.as_ref());

    let change = |packet: &mut [u8], keys: &dyn quic::HeaderProtectionKey, is_sender: bool| {
        let (header, rest) = packet.split_at_mut(HEADER.len());
        let (first, packet_number) = header.split_first_mut().unwrap();
        let sample = &rest[..keys.sample_len()];
        if is_sender {
            keys.encrypt_in_place(sample, first, packet_number).unwrap();
        } else {
            keys.decrypt_in_place(sample, first, packet_number).unwrap();
        }
    };
    change(&mut packet, sender.header.as_ref(), true);
    assert_ne!(packet[1..5], HEADER[1..]);
    change(&mut packet, receiver.header.as_ref(), false);
    assert_eq!(packet[..5], HEADER);

    let (header, payload) = packet.split_at_mut(HEADER.len());
    assert!(receiver.packet.decrypt_in_place(number + 1, header, &mut payload.to_vec()).is_err());
    assert_eq!(receiver.packet.decrypt_in_place(number, header, payload).unwrap(), PAYLOAD);
}

#[test]
fn suites_protect_packets_as_those_of_rustls_do() {
    let all = default_provider().cipher_suites.into_iter().filter(|suite| suite.tls13().is_some());
    let ours = provider().cipher_suites;
    assert_eq!(ours, all.clone().collect::<Vec<_>>());
    assert_eq!(ours.len(), 3);

    for suite in all {
        let [server, client] = handshake(suite);
        for number in 0..6 {
            exchange(number, &server.local, &client.remote);
            exchange(number, &client.local, &server.remote);
            if number % 2 == 1 {
                // This has to be called twice because the first call only marks those that were
                // used.
                drop_unused_keys();
                drop_unused_keys();
            }
        }

        for (ours, theirs) in [(&server.local, &client.remote), (&server.remote, &client.local)] {
            assert_eq!(ours.packet.tag_len(), theirs.packet.tag_len());
            assert_eq!(ours.packet.confidentiality_limit(), theirs.packet.confidentiality_limit());
            assert_eq!(ours.packet.integrity_limit(), theirs.packet.integrity_limit());
        }
    }
}
