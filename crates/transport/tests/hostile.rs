//! Peers that truncate, damage or flood the session, in memory. Each of them should cost a bounded amount and
//! end with an alert.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;

use cannery_transport::{Context, Failure, HandshakePermit, HandshakeStep, SelfSigned, Version, limits};
use support::{Pair, VERSIONS, client_config, context, record_lengths, settings};

fn pair(context: &Context, version: Version) -> Pair {
    Pair::new(context, &Arc::new(client_config(version, &["h2"])), "localhost")
}

/// Returns the first flight of a client.
fn hello(context: &Context, version: Version) -> Vec<u8> {
    let mut pair = pair(context, version);
    pair.flush_client();
    pair.to_session
}

#[test]
fn damaged_hello_never_panics_nor_yields_data() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let hello = hello(&context, version);
        for position in 0..hello.len() {
            let mut damaged = hello.clone();
            damaged[position] ^= 0x55;
            let mut plain = Vec::new();
            let mut sealed = Vec::new();
            let mut session = context.session().unwrap();
            let result = session.open(&mut damaged, &mut plain, &mut sealed, HandshakePermit::Granted);
            assert!(plain.is_empty() && session.is_handshaking(), "{version:?} byte {position}: {result:?}");
        }
    }
}

#[test]
fn damaged_second_flight_ends_the_handshake() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut length = 1;
        let mut position = 0;
        while position < length {
            let mut pair = pair(&context, version);
            pair.flush_client();
            pair.open_in_session().unwrap();
            pair.read_in_client().unwrap();
            pair.flush_client();

            length = pair.to_session.len();
            let starts = record_lengths(&pair.to_session).into_iter().scan(0, |end, length| {
                *end += length;
                Some(*end - length)
            });

            // The version field of a plaintext record is ignored.
            let is_version = starts.into_iter().any(|start| (start + 1..start + 3).contains(&position));

            pair.to_session[position] ^= 0x55;
            let result = pair.open_in_session();
            if is_version && result.is_ok() {
                position += 1;
                continue;
            }
            assert!(pair.session.is_handshaking(), "{version:?} byte {position} of {length}: {result:?}");
            assert!(pair.plain.is_empty());
            position += 1;
        }

        assert!(length > 40, "{version:?}: the flight has {length} bytes");
    }
}

#[test]
fn incomplete_hello_waits_for_more() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let hello = hello(&context, version);
        for end in 0..hello.len() {
            let mut plain = Vec::new();
            let mut sealed = Vec::new();
            let mut cut = hello[..end].to_vec();
            let opened = context
                .session()
                .unwrap()
                .open(&mut cut, &mut plain, &mut sealed, HandshakePermit::Granted)
                .unwrap();
            assert_eq!(
                (opened.consumed, opened.handshake_step, sealed.len()),
                (0, HandshakeStep::None, 0),
                "{version:?} at {end}"
            );
        }
    }
}

#[test]
fn endless_hello_is_refused_at_the_limit() {
    let context = context(settings(SelfSigned::Ecdsa));
    for part in [1, 100, 16384] {
        let mut session = context.session().unwrap();

        // This is the start of a hello with a length field of 64 KiB, in records with `part` bytes of
        // content.
        let mut input = Vec::new();
        let mut plain = Vec::new();
        let mut sealed = Vec::new();
        let mut content = vec![1, 0, 0xff, 0xff];
        let mut buffered = 0;

        let failure = loop {
            content.resize(part.max(4), 0);
            let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
            input.extend_from_slice(&[22, 3, 1, high, low]);
            input.append(&mut content);
            match session.open(&mut input, &mut plain, &mut sealed, HandshakePermit::Granted) {
                Ok(opened) => drop(input.drain(..opened.consumed)),
                Err(failure) => break failure,
            }
            buffered = input.len();
            assert!(buffered <= limits::HANDSHAKE_BYTES_MAX);
        };

        assert!(matches!(failure, Failure::HandshakeTooLong), "{failure}");
        assert_eq!(sealed, [21, 3, 3, 0, 2, 2, 50], "after {buffered} bytes");
    }
}

#[test]
fn header_of_an_oversized_plaintext_record_is_refused() {
    let context = context(settings(SelfSigned::Ecdsa));
    for (length, is_too_long) in [(1 << 14, false), ((1 << 14) + 1, true), (u16::MAX, true)] {
        let [high, low] = u16::to_be_bytes(length);
        let mut plain = Vec::new();
        let mut sealed = Vec::new();
        let result = context.session().unwrap().open(
            &mut [22, 3, 1, high, low],
            &mut plain,
            &mut sealed,
            HandshakePermit::Granted,
        );
        assert_eq!(result.is_err(), is_too_long, "{length}: {result:?}");
        assert_eq!(sealed, if is_too_long { &[21, 3, 3, 0, 2, 2, 22][..] } else { &[] }, "{length}");
    }
}

#[test]
fn invalid_plaintext_flight_gets_plaintext_alert() {
    let context = context(settings(SelfSigned::Ecdsa));
    let short_share = [&[22, 3, 3, 0, 36, 16, 0, 0, 32, 31][..], &[1; 31]].concat();
    // A short key share, an empty one, a truncated one, application data, and an oversized record.
    for (flight, alert) in [
        (&short_share[..], 47),
        (&[22, 3, 3, 0, 5, 16, 0, 0, 1, 0], 50),
        (&[22, 3, 3, 0, 5, 16, 0, 0, 1, 9], 50),
        (&[23, 3, 3, 0, 1, 0], 10),
        (&[22, 3, 3, 0x40, 1], 22),
    ] {
        let mut pair = pair(&context, Version::Tls12);
        pair.flush_client();
        pair.open_in_session().unwrap();
        pair.to_client.clear();
        pair.to_session.extend_from_slice(flight);
        pair.open_in_session().unwrap_err();
        assert_eq!(pair.to_client, [21, 3, 3, 0, 2, 2, alert], "{flight:?}");
    }
}

#[test]
fn no_plaintext_alert_is_sent_after_encryption_began() {
    let context = context(settings(SelfSigned::Ecdsa));
    // After the server's first flight in TLS 1.3, alerts must be encrypted.
    for flight in [&[22, 3, 3, 0xff, 0xff][..], &[22, 3, 3, 0, 5, 16, 0, 0, 1, 0], &[21, 3, 3, 0, 2, 1]] {
        let mut pair = pair(&context, Version::Tls13);
        pair.flush_client();
        pair.open_in_session().unwrap();
        pair.to_client.clear();
        pair.to_session.extend_from_slice(flight);
        let _ = pair.open_in_session();
        assert!(pair.to_client.first().is_none_or(|&kind| kind == 23), "{:?} to {flight:?}", pair.to_client);
    }
}

#[test]
fn plaintext_data_after_the_hello_is_refused() {
    let context = context(settings(SelfSigned::Ecdsa));
    let mut pair = pair(&context, Version::Tls13);
    pair.flush_client();
    // Application data in plaintext is not authenticated.
    pair.to_session.extend_from_slice(&[23, 3, 3, 0, 5]);
    pair.to_session.extend_from_slice(b"GET /");
    assert!(pair.open_in_session().is_err());
    assert!(pair.plain.is_empty());
}

#[test]
fn key_updates_work_and_a_flood_is_refused() {
    let context = context(settings(SelfSigned::Ecdsa));
    let mut pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    for round in 0..3 * limits::EMPTY_RECORDS_MAX {
        pair.client.refresh_traffic_keys().unwrap();
        pair.send_from_client(b"x").unwrap();
        assert_eq!(pair.send_from_session(&[b"with a new key"]), b"with a new key", "round {round}");
    }
    assert_eq!(pair.plain, vec![b'x'; 3 * usize::from(limits::EMPTY_RECORDS_MAX)]);
    let flood = (0..=limits::EMPTY_RECORDS_MAX).map(|_| {
        pair.client.refresh_traffic_keys().unwrap();
        pair.flush_client();
        pair.open_in_session()
    });
    let refused = flood.filter_map(Result::err).next().unwrap();
    assert!(refused.to_string().contains("without content"), "{refused}");
    pair.read_in_client().unwrap_err();
}

#[test]
fn failed_session_ignores_later_input() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut pair = Pair::connected(&context, &Arc::new(client_config(version, &[])));
        let mut forged = vec![23, 3, 3, 0, 40];
        forged.resize(45, 7);
        let result =
            pair.session.open(&mut forged, &mut pair.plain, &mut pair.to_client, HandshakePermit::Granted);
        assert!(matches!(result, Err(Failure::Damaged)));
        let alert = pair.read_in_client().unwrap_err();
        assert!(alert.to_string().contains("BadRecordMac"), "{alert}");
        let mut more = forged.clone();
        let opened = pair
            .session
            .open(&mut more, &mut pair.plain, &mut pair.to_client, HandshakePermit::Granted)
            .unwrap();
        assert!(opened.peer_has_closed && opened.consumed == more.len() && pair.plain.is_empty());
        pair.session.close(&mut pair.to_client);
        assert!(pair.to_client.is_empty(), "nothing follows a fatal alert");
    }
}

#[test]
fn random_bytes_never_panic() {
    let context = context(settings(SelfSigned::Ecdsa));
    let config = Arc::new(client_config(Version::Tls12, &[]));
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };

    let mut failures = 0;
    for round in 0..2000 {
        let mut input: Vec<u8> = (0..random()).map(|_| random()).collect();

        // Most begin with a plausible header, so that they are parsed further.
        let kind = 20 + random() % 5;
        for (byte, start) in input.iter_mut().zip([kind, 3, 3, 0]) {
            *byte = start;
        }

        let mut session = if round % 100 == 0 {
            Pair::connected(&context, &config).session
        } else {
            context.session().unwrap()
        };

        let mut plain = Vec::new();
        let mut sealed = Vec::new();
        failures +=
            usize::from(session.open(&mut input, &mut plain, &mut sealed, HandshakePermit::Granted).is_err());
        assert!(plain.is_empty());
    }

    assert!(failures > 500, "only {failures} were refused");
}
