//! Sessions against clients of `rustls`, in memory: every version, every kind of key, every split of what comes.

#![forbid(unsafe_code)]

mod support;

use std::sync::Arc;

use cannery_secure::{Failure, Opened, Protocol, SelfSigned, Version, limits};
use rustls::crypto::aws_lc_rs;
use rustls::{NamedGroup, ProtocolVersion};
use support::{KINDS, Pair, VERSIONS, client_config, client_config_of, context, record_lengths, settings};

#[test]
fn every_version_and_every_key_carries_bytes_both_ways() {
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
            pair.client_says(b"a request").unwrap();
            assert_eq!(pair.plain, b"a request", "{kind:?} {version:?}");
            assert_eq!(pair.session_says(&[b"an ", b"", b"answer"]), b"an answer", "{kind:?} {version:?}");
        }
    }
}

#[test]
fn the_handshake_succeeds_however_its_bytes_are_split() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let config = Arc::new(client_config(version, &["http/1.1"]));
        for part in [1, 2, 3, 5, 7, 64, 500, 1999] {
            let mut pair = Pair::new(&context, &config, "localhost");
            pair.shake_hands_in_parts(part).unwrap();
            assert!(!pair.session.is_handshaking(), "{version:?} in parts of {part}");
            pair.client_says(b"x").unwrap();
            assert_eq!(pair.plain, b"x");
        }
    }
}

#[test]
fn records_open_however_they_are_split() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let config = Arc::new(client_config(version, &[]));
        let mut pair = Pair::connected(&context, &config);
        for round in 0..60 {
            pair.client_speaks();
            for text in [&b"one"[..], b"two and three"] {
                std::io::Write::write_all(&mut pair.client.writer(), text).unwrap();
                pair.client_speaks();
            }
            let sent = std::mem::take(&mut pair.to_session);
            let cut = round % sent.len();
            for part in [&sent[..cut], &sent[cut..]] {
                pair.to_session.extend_from_slice(part);
                pair.session_listens().unwrap();
            }
            assert_eq!(std::mem::take(&mut pair.plain), b"onetwo and three", "{version:?} cut at {cut}");
            assert!(pair.to_session.is_empty());
        }
    }
}

#[test]
fn the_post_quantum_group_is_taken_where_the_client_has_it() {
    let context = context(settings(SelfSigned::Ecdsa));
    let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    let group = pair.client.negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(group, Some(NamedGroup::X25519MLKEM768));
}

#[test]
fn of_suites_that_are_all_strong_the_client_has_its_first() {
    // Who has no hardware for AES puts ChaCha20 first.
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
            let config = Arc::new(client_config_of(provider, version, &[]));
            let pair = Pair::connected(&context, &config);
            assert_eq!(pair.client.negotiated_cipher_suite(), Some(first), "{version:?}");
        }
    }
}

#[test]
fn protocols_are_chosen_by_what_the_client_asks_for() {
    let context = context(settings(SelfSigned::Ecdsa));
    for (asked, expected) in [
        (&["h2", "http/1.1"][..], Some(Protocol::Http2)),
        (&["http/1.1", "h2"], Some(Protocol::Http2)),
        (&["http/1.1"], Some(Protocol::Http11)),
        (&["http/1.0"], Some(Protocol::Http11)),
        (&[], None),
    ] {
        let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, asked)));
        assert_eq!(pair.session.protocol(), expected, "{asked:?}");
    }
    let mut pair = Pair::new(&context, &Arc::new(client_config(Version::Tls13, &["spdy/3"])), "localhost");
    assert!(matches!(pair.shake_hands(), Err(Failure::Incompatible(_))));
    assert!(pair.client_listens().unwrap_err().to_string().contains("NoApplicationProtocol"));
}

#[test]
fn long_answers_begin_with_small_records_and_go_on_with_full_ones() {
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
        assert_eq!(pair.client_listens().unwrap(), body);
    }
}

#[test]
fn many_small_runs_gather_into_one_record() {
    let context = context(settings(SelfSigned::Ecdsa));
    let mut pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    let run = [7; 100];
    let runs = [std::io::IoSlice::new(&run); 64];
    pair.session.seal(&runs, &mut pair.to_client).unwrap();
    assert_eq!(record_lengths(&pair.to_client), [6400 + 22]);
    assert_eq!(pair.client_listens().unwrap(), [7; 6400]);
}

#[test]
fn the_end_is_told_both_ways() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut pair = Pair::connected(&context, &Arc::new(client_config(version, &[])));
        pair.client.send_close_notify();
        pair.client_says(b"").unwrap();
        assert!(pair.opened.has_ended);
        assert_eq!(pair.session_says(&[b"still answered"]), b"still answered");
        pair.session.close(&mut pair.to_client);
        let mut sent = pair.to_client.as_slice();
        pair.client.read_tls(&mut sent).unwrap();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn a_step_that_costs_much_is_put_off_until_it_is_allowed() {
    let context = context(settings(SelfSigned::Rsa));
    let mut pair = Pair::new(&context, &Arc::new(client_config(Version::Tls13, &[])), "localhost");
    pair.client_speaks();
    let hello = pair.to_session.len();
    let (head, tail) = pair.to_session.split_at_mut(hello - 1);
    let opened = pair.session.open(head, &mut pair.plain, &mut pair.to_client, false).unwrap();
    assert_eq!((opened.used, opened.is_put_off), (0, false));
    assert_eq!(tail.len(), 1);
    let put_off =
        pair.session.open(&mut pair.to_session, &mut pair.plain, &mut pair.to_client, false).unwrap();
    assert_eq!((put_off.used, put_off.is_put_off, put_off.has_worked), (0, true, false));
    assert!(pair.to_client.is_empty());
    pair.session_listens().unwrap();
    assert_eq!((pair.opened.used, pair.opened.is_put_off, pair.opened.has_worked), (hello, false, true));
    pair.shake_hands().unwrap();
}

#[test]
fn what_is_not_tls_is_told_apart() {
    let context = context(settings(SelfSigned::Ecdsa));
    let open = |bytes: &[u8]| {
        let (mut plain, mut sealed) = (Vec::new(), Vec::new());
        context.session().unwrap().open(&mut bytes.to_vec(), &mut plain, &mut sealed, true)
    };
    assert!(matches!(open(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err(Failure::PlainHttp)));
    assert!(matches!(open(b"SSH-2.0-client\r\n"), Err(Failure::NotTls)));
    assert!(matches!(open(&[0; 64]), Err(Failure::NotTls)));
    for start in 0..2 {
        assert_eq!(open(&b"GET /"[..start]).map_err(|_| ()), Ok(Opened::default()), "too little to tell");
    }
}

#[test]
fn a_record_that_cannot_come_first_is_answered_with_an_alert() {
    let context = context(settings(SelfSigned::Ecdsa));
    for kind in [0, 19, 23, 24, 255] {
        let (mut plain, mut sealed) = (Vec::new(), Vec::new());
        let result =
            context.session().unwrap().open(&mut [kind, 3, 3, 0, 1, 1], &mut plain, &mut sealed, true);
        assert!(matches!(result, Err(Failure::Misbehaved(_))), "{kind}");
        assert_eq!(sealed, [21, 3, 3, 0, 2, 2, 10], "{kind}");
    }
}
