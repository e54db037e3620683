//! Sessions against `rustls` clients in memory: every version, every kind of key, input split anywhere.

#![forbid(unsafe_code)]

mod support;

use std::sync::Arc;

use cannery_transport::{
    Failure, HandshakePermit, HandshakeStep, OpenOutcome, Protocol, SelfSigned, Version, limits,
};
use rustls::crypto::aws_lc_rs;
use rustls::{NamedGroup, ProtocolVersion};
use support::{KINDS, Pair, VERSIONS, client_config, client_options, context, record_lengths, settings};

#[test]
fn every_version_and_key_carries_data() {
    for kind in KINDS {
        let context = context(settings(kind));
        for version in VERSIONS {
            let config = Arc::new(client_config(version, &["h2", "http/1.1"]));
            let mut pair = Pair::connected(&context, &config);

            let expected = match version {
                Version::Tls12 => ProtocolVersion::TLSv1_2,
                Version::Tls13 => ProtocolVersion::TLSv1_3,
            };

            assert_eq!(pair.client.protocol_version(), Some(expected), "{kind:?}");
            assert_eq!(pair.session.protocol(), Some(Protocol::Http2), "{kind:?} {version:?}");
            assert_eq!(pair.client.alpn_protocol(), Some(&b"h2"[..]));

            pair.send_from_client(b"a request").unwrap();
            assert_eq!(pair.plain, b"a request", "{kind:?} {version:?}");
            assert_eq!(
                pair.send_from_session(&[b"a ", b"", b"response"]),
                b"a response",
                "{kind:?} {version:?}"
            );
        }
    }
}

#[test]
fn handshake_succeeds_for_any_split() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let config = Arc::new(client_config(version, &["http/1.1"]));
        for part in [1, 2, 3, 5, 7, 64, 500, 1999] {
            let mut pair = Pair::new(&context, &config, "localhost");
            pair.handshake_in_parts(part).unwrap();
            assert!(!pair.session.is_handshaking(), "{version:?} in parts of {part}");
            pair.send_from_client(b"x").unwrap();
            assert_eq!(pair.plain, b"x");
        }
    }
}

#[test]
fn records_open_for_any_split() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let config = Arc::new(client_config(version, &[]));
        let mut pair = Pair::connected(&context, &config);
        for round in 0..60 {
            pair.flush_client();
            for text in [&b"one"[..], b"two and three"] {
                std::io::Write::write_all(&mut pair.client.writer(), text).unwrap();
                pair.flush_client();
            }

            let sent = std::mem::take(&mut pair.to_session);
            let cut = round % sent.len();
            for part in [&sent[..cut], &sent[cut..]] {
                pair.to_session.extend_from_slice(part);
                pair.open_in_session().unwrap();
            }

            assert_eq!(std::mem::take(&mut pair.plain), b"onetwo and three", "{version:?} cut at {cut}");
            assert!(pair.to_session.is_empty());
        }
    }
}

#[test]
fn post_quantum_group_is_preferred() {
    let context = context(settings(SelfSigned::Ecdsa));
    let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    let group = pair.client.negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(group, Some(NamedGroup::X25519MLKEM768));
}

#[test]
fn client_order_of_suites_is_honored() {
    // Clients without AES instructions put ChaCha20 first.
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let all = aws_lc_rs::default_provider().cipher_suites;
        for first in all {
            let mut provider = aws_lc_rs::default_provider();
            let is_of_version = first.tls13().is_some() == (version == Version::Tls13);
            if !is_of_version || format!("{first:?}").contains("ECDHE_RSA") {
                continue;
            }
            provider.cipher_suites.sort_by_key(|suite| *suite != first);
            let config = Arc::new(client_options(version, &[]).provider(provider).build());
            let pair = Pair::connected(&context, &config);
            assert_eq!(pair.client.negotiated_cipher_suite(), Some(first), "{version:?}");
        }
    }
}

#[test]
fn alpn_selects_the_protocol() {
    let context = context(settings(SelfSigned::Ecdsa));
    for (offered, expected) in [
        (&["h2", "http/1.1"][..], Some(Protocol::Http2)),
        (&["http/1.1", "h2"], Some(Protocol::Http2)),
        (&["http/1.1"], Some(Protocol::Http11)),
        (&["http/1.0"], Some(Protocol::Http11)),
        (&[], None),
    ] {
        let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, offered)));
        assert_eq!(pair.session.protocol(), expected, "{offered:?}");
    }
    let mut pair = Pair::new(&context, &Arc::new(client_config(Version::Tls13, &["spdy/3"])), "localhost");
    assert!(matches!(pair.handshake(), Err(Failure::Incompatible(_))));
    assert!(pair.read_in_client().unwrap_err().to_string().contains("NoApplicationProtocol"));
}

#[test]
fn long_response_starts_with_small_records() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut pair = Pair::connected(&context, &Arc::new(client_config(version, &[])));
        let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let runs = [&body[..100], &body[100..100], &body[100..]];
        let runs = runs.map(std::io::IoSlice::new);
        pair.session.seal(&runs, &mut pair.to_client).unwrap();
        let overhead = if version == Version::Tls13 { 5 + 1 + 16 } else { 5 + 8 + 16 };
        let contents: Vec<_> =
            record_lengths(&pair.to_client).iter().map(|length| length - overhead).collect();
        let small = contents.iter().take_while(|&&length| length == limits::FIRST_CONTENT_BYTES).count();
        assert_eq!(small, 4, "{contents:?}");
        let (last, full) = contents[small..].split_last().unwrap();
        assert!(full.iter().all(|&length| length == limits::CONTENT_BYTES_MAX), "{contents:?}");
        assert!(*last > 0);
        assert_eq!(pair.read_in_client().unwrap(), body);
    }
}

#[test]
fn small_runs_share_a_record() {
    let context = context(settings(SelfSigned::Ecdsa));
    let mut pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    let run = [7; 100];
    let runs = [std::io::IoSlice::new(&run); 64];
    pair.session.seal(&runs, &mut pair.to_client).unwrap();
    assert_eq!(record_lengths(&pair.to_client), [6400 + 22]);
    assert_eq!(pair.read_in_client().unwrap(), [7; 6400]);
}

#[test]
fn close_notify_passes_in_both_directions() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut pair = Pair::connected(&context, &Arc::new(client_config(version, &[])));
        pair.client.send_close_notify();
        pair.send_from_client(b"").unwrap();
        assert!(pair.outcome.peer_has_closed);
        assert_eq!(pair.send_from_session(&[b"a late response"]), b"a late response");
        pair.session.close(&mut pair.to_client);
        let mut sent = pair.to_client.as_slice();
        pair.client.read_tls(&mut sent).unwrap();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn handshake_step_is_deferred_until_permitted() {
    let context = context(settings(SelfSigned::Rsa));
    let mut pair = Pair::new(&context, &Arc::new(client_config(Version::Tls13, &[])), "localhost");
    pair.flush_client();
    let hello = pair.to_session.len();
    let (head, tail) = pair.to_session.split_at_mut(hello - 1);
    let opened =
        pair.session.open(head, &mut pair.plain, &mut pair.to_client, HandshakePermit::Withheld).unwrap();
    assert_eq!((opened.consumed, opened.handshake_step), (0, HandshakeStep::None));
    assert_eq!(tail.len(), 1);
    let deferred = pair
        .session
        .open(&mut pair.to_session, &mut pair.plain, &mut pair.to_client, HandshakePermit::Withheld)
        .unwrap();
    assert_eq!((deferred.consumed, deferred.handshake_step), (0, HandshakeStep::Deferred));
    assert!(pair.to_client.is_empty());
    pair.open_in_session().unwrap();
    assert_eq!((pair.outcome.consumed, pair.outcome.handshake_step), (hello, HandshakeStep::Taken));
    pair.handshake().unwrap();
}

#[test]
fn plain_http_and_other_protocols_are_recognized() {
    let context = context(settings(SelfSigned::Ecdsa));
    let open = |bytes: &[u8]| {
        let mut plain = Vec::new();
        let mut sealed = Vec::new();
        context.session().unwrap().open(
            &mut bytes.to_vec(),
            &mut plain,
            &mut sealed,
            HandshakePermit::Granted,
        )
    };

    assert!(matches!(open(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err(Failure::PlainHttp)));
    assert!(matches!(open(b"SSH-2.0-client\r\n"), Err(Failure::NotTls)));
    assert!(matches!(open(&[0; 64]), Err(Failure::NotTls)));
    for start in 0..2 {
        assert_eq!(
            open(&b"GET /"[..start]).map_err(|_| ()),
            Ok(OpenOutcome::default()),
            "too short to decide"
        );
    }
}

#[test]
fn unexpected_first_record_gets_an_alert() {
    let context = context(settings(SelfSigned::Ecdsa));
    for kind in [0, 19, 23, 24, 255] {
        let mut plain = Vec::new();
        let mut sealed = Vec::new();
        let result = context.session().unwrap().open(
            &mut [kind, 3, 3, 0, 1, 1],
            &mut plain,
            &mut sealed,
            HandshakePermit::Granted,
        );
        assert!(matches!(result, Err(Failure::Misbehaved(_))), "{kind}");
        assert_eq!(sealed, [21, 3, 3, 0, 2, 2, 10], "{kind}");
    }
}
