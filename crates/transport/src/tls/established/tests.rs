//! Unit tests of established sessions, against a peer that seals valid records with any content.

use std::io::IoSlice;

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

use super::Established;
use crate::tls::record::{self, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, RecordProtection};
use crate::tls::rustls_connection::TrafficKeys;
use crate::{Failure, OpenOutcome, Version, limits};

/// TLS 1.2 and TLS 1.3 (`true`), each with AES-GCM and ChaCha20-Poly1305 (`true`).
const FORMATS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A session and its peer.
struct Harness {
    session: Established,
    /// Seals the records that the session opens.
    peer_sealing: RecordProtection,
    /// Opens the records that the session seals.
    peer_opening: RecordProtection,
    outcome: OpenOutcome,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

fn protection(is_tls13: bool, is_chacha: bool, seed: u8, sequence: u64) -> RecordProtection {
    let (key, iv) = (AeadKey::from([seed; 32]), Iv::from([seed; 12]));
    let secrets = if is_chacha {
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }
    } else {
        ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    };
    let version = if is_tls13 { Version::Tls13 } else { Version::Tls12 };
    RecordProtection::new(version, sequence, &secrets).unwrap()
}

fn harness_at((is_tls13, is_chacha): (bool, bool), sequence: u64) -> Harness {
    let half = |seed| protection(is_tls13, is_chacha, seed, sequence);
    let session = Established::new(TrafficKeys { opening: half(1), sealing: half(2), schedule: None });
    Harness {
        session,
        peer_sealing: half(1),
        peer_opening: half(2),
        outcome: OpenOutcome::default(),
        plain: Vec::new(),
        sealed: Vec::new(),
    }
}

fn harness(form: (bool, bool)) -> Harness {
    harness_at(form, 0)
}

impl Harness {
    fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut record = vec![0; content.len() + self.peer_sealing.format().overhead()];
        self.peer_sealing.seal(kind, content, &mut record).unwrap();
        record
    }

    /// Passes a record of the peer to the session.
    fn send(&mut self, kind: u8, content: &[u8]) -> Result<(), Failure> {
        let mut record = self.record(kind, content);
        self.send_bytes(&mut record)
    }

    fn send_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.outcome = OpenOutcome::default();
        self.session.open(bytes, &mut self.outcome, &mut self.plain, &mut self.sealed)
    }

    /// Returns the types and contents of the records sealed by the session since the last call.
    fn received(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut sealed = std::mem::take(&mut self.sealed);
        let mut records = Vec::new();
        let mut rest = sealed.as_mut_slice();
        while let Some(length) = record::length(rest) {
            let (record, next) = rest.split_at_mut(length);
            let (kind, content) = self.peer_opening.open(record).unwrap();
            records.push((kind, content.to_vec()));
            rest = next;
        }
        records
    }

    /// Gets the description of the fatal alert that the session sent. There must not be any other
    /// record.
    fn alert(&mut self) -> u8 {
        match self.received().as_slice() {
            [(ALERT, content)] => match content.as_slice() {
                [2, alert] => *alert,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn data_passes_in_both_directions() {
    for form in FORMATS {
        let mut peer = harness_at(form, 7);
        peer.send(APPLICATION_DATA, b"one").unwrap();
        peer.send(APPLICATION_DATA, b" and two").unwrap();
        assert_eq!(peer.plain, b"one and two", "{form:?}");
        peer.session.seal(&[IoSlice::new(b"a "), IoSlice::new(b"response")], &mut peer.sealed).unwrap();
        assert_eq!(peer.received(), [(APPLICATION_DATA, b"a response".to_vec())], "{form:?}");
    }
}

#[test]
fn record_with_a_changed_bit_is_refused() {
    for form in FORMATS {
        let length = harness(form).record(APPLICATION_DATA, b"content").len();
        for position in 0..length {
            // A changed length field would split the bytes into other records.
            if (3..5).contains(&position) {
                continue;
            }
            for bit in 0..8 {
                let mut peer = harness(form);
                let mut record = peer.record(APPLICATION_DATA, b"content");
                record[position] ^= 1 << bit;
                assert!(peer.send_bytes(&mut record).is_err(), "{form:?} byte {position} bit {bit}");
                assert!(peer.plain.is_empty());
                assert!([20, 10].contains(&peer.alert()));
            }
        }
    }
}

#[test]
fn replayed_or_reordered_record_is_refused() {
    for form in FORMATS {
        let mut twice = harness(form);
        let record = twice.record(APPLICATION_DATA, b"pay");
        twice.send_bytes(&mut record.clone()).unwrap();
        assert!(matches!(twice.send_bytes(&mut record.clone()), Err(Failure::Damaged)), "{form:?}");
        let mut swapped = harness(form);
        let _skipped = swapped.record(APPLICATION_DATA, b"one");
        let mut second = swapped.record(APPLICATION_DATA, b"two");
        assert!(matches!(swapped.send_bytes(&mut second), Err(Failure::Damaged)), "{form:?}");
        assert_eq!(swapped.alert(), 20);
    }
}

#[test]
fn records_too_short_or_too_long_are_refused() {
    for form in FORMATS {
        for length in 0..24_u8 {
            let mut peer = harness(form);
            let mut record = vec![0; 5 + usize::from(length)];
            record[..5].copy_from_slice(&[APPLICATION_DATA, 3, 3, 0, length]);
            assert!(peer.send_bytes(&mut record).is_err(), "{form:?} {length}");
        }
        let mut head = [APPLICATION_DATA, 3, 3, 0xff, 0xff];
        let mut announced = harness(form);
        assert!(announced.send_bytes(&mut head).is_err());
        assert_eq!(announced.alert(), 22);
        let mut filled = harness(form);
        filled.send(APPLICATION_DATA, &vec![1; limits::CONTENT_BYTES_MAX]).unwrap();
        let content = vec![1; limits::CONTENT_BYTES_MAX + 1];
        assert!(filled.send(APPLICATION_DATA, &content).is_err());
        assert_eq!(filled.alert(), 22, "{form:?}");
    }
}

#[test]
fn padding_is_removed_and_must_not_be_all() {
    let mut peer = harness((true, false));
    // Since `record` appends the type 0, the result is content, its type, and four bytes of padding.
    let mut record = peer.record(0, b"content\x17\0\0\0");
    peer.send_bytes(&mut record).unwrap();
    assert_eq!(peer.plain, b"content");
    let mut record = peer.record(0, &[0; 100]);
    assert!(peer.send_bytes(&mut record).is_err());
    assert_eq!(peer.alert(), 10);
}

#[test]
fn empty_records_are_limited_between_data() {
    for form in FORMATS {
        let mut peer = harness(form);
        for _ in 0..3 {
            for _ in 0..limits::EMPTY_RECORDS_MAX {
                peer.send(APPLICATION_DATA, b"").unwrap();
            }
            peer.send(APPLICATION_DATA, b"x").unwrap();
        }
        for _ in 0..limits::EMPTY_RECORDS_MAX {
            peer.send(APPLICATION_DATA, b"").unwrap();
        }
        assert!(peer.send(APPLICATION_DATA, b"").is_err());
        assert_eq!(peer.alert(), 10);
    }
}

#[test]
fn close_notify_is_received_and_sent_once() {
    for form in FORMATS {
        let mut peer = harness(form);
        let mut bytes = peer.record(ALERT, &[1, 0]);
        bytes.extend_from_slice(b"ignored after the end");
        peer.send_bytes(&mut bytes).unwrap();
        assert!(peer.outcome.peer_has_closed);
        assert_eq!(peer.outcome.consumed, bytes.len());
        peer.session.close(&mut peer.sealed);
        peer.session.close(&mut peer.sealed);
        assert_eq!(peer.received(), [(ALERT, vec![1, 0])]);
    }
}

#[test]
fn alerts_end_the_session_except_tls12_warnings() {
    for form in FORMATS {
        let mut fatal = harness(form);
        assert!(matches!(fatal.send(ALERT, &[2, 48]), Err(Failure::Alert(name)) if name == "UnknownCA"));
        let mut warned = harness(form);
        assert_eq!(warned.send(ALERT, &[1, 112]).is_ok(), !form.0, "{form:?}");
        let mut canceled = harness(form);
        canceled.send(ALERT, &[1, 90]).unwrap();
        // RFC 8446 §5.4: an empty record is a different error from a malformed alert.
        for (none, expected) in [(&[][..], 10), (&[2], 50), (&[2, 40, 0], 50), (&[3, 40], 50)] {
            let mut peer = harness(form);
            assert!(peer.send(ALERT, none).is_err());
            assert_eq!(peer.alert(), expected, "{form:?} {none:?}");
        }
    }
}

#[test]
fn nothing_is_sent_after_a_received_fatal_alert() {
    for form in FORMATS {
        for alert in [40, 90] {
            // TLS 1.3 ignores the level of user_canceled; in TLS 1.2 a fatal one ends the session.
            let mut peer = harness(form);
            let ends = peer.send(ALERT, &[2, alert]).is_err();
            assert_eq!(ends, alert == 40 || !form.0, "{form:?} {alert}");
            peer.session.close(&mut peer.sealed);
            assert_eq!(peer.received().len(), usize::from(!ends), "{form:?} {alert}");
        }
    }
}

#[test]
fn nothing_is_sealed_after_close() {
    for form in FORMATS {
        let mut closed = harness(form);
        closed.session.close(&mut closed.sealed);
        let mut failed = harness(form);
        failed.send(255, b"x").unwrap_err();
        for mut peer in [closed, failed] {
            let sent = peer.received();
            let sealed = peer.session.seal(&[IoSlice::new(b"more")], &mut peer.sealed);
            assert!(matches!(sealed, Err(Failure::Internal(_))), "{form:?} after {sent:?}");
            // No reply is sealed either.
            let record = if form.0 { (255, &b"x"[..]) } else { (HANDSHAKE, &[1, 0, 0, 0][..]) };
            let _ = peer.send(record.0, record.1);
            assert_eq!(peer.received(), []);
        }
    }
}

#[test]
fn sequence_number_never_wraps() {
    for (is_chacha, last) in [(false, (1 << 24) - 1), (true, u64::MAX - 1)] {
        for is_tls13 in [false, true] {
            let mut sealing = protection(is_tls13, is_chacha, 1, last);
            let mut room = vec![0; sealing.format().overhead() + 1];
            assert_eq!(sealing.seal(APPLICATION_DATA, b"x", &mut room), Some(()));
            assert_eq!(sealing.seal(APPLICATION_DATA, b"x", &mut room), None);
            assert_eq!(sealing.seal_with(APPLICATION_DATA, &mut room, |_| ()), None);
        }
    }
}

#[test]
fn header_of_an_oversized_record_is_refused() {
    // RFC 8446 §5.2 and RFC 5246 §6.2.3 allow different expansions of the content.
    for (form, added) in
        [((true, false), 256), ((true, true), 256), ((false, false), 2048), ((false, true), 2048)]
    {
        for (length, is_too_long) in [((1 << 14) + added, false), ((1 << 14) + added + 1, true)] {
            let [high, low] = u16::to_be_bytes(length);
            let mut peer = harness(form);
            assert_eq!(
                peer.send_bytes(&mut [APPLICATION_DATA, 3, 3, high, low]).is_err(),
                is_too_long,
                "{form:?}"
            );
            if is_too_long {
                assert_eq!(peer.alert(), 22, "{form:?} {length}");
            }
        }
    }
}

#[test]
fn renegotiation_is_refused_and_session_continues() {
    for is_chacha in [false, true] {
        let mut peer = harness((false, is_chacha));
        peer.send(HANDSHAKE, &[1, 0, 0, 2, 3, 3]).unwrap();
        assert_eq!(peer.received(), [(ALERT, vec![1, 100])]);
        peer.send(APPLICATION_DATA, b"still here").unwrap();
        assert_eq!(peer.plain, b"still here");
        for _ in 0..limits::EMPTY_RECORDS_MAX {
            peer.send(HANDSHAKE, &[1, 0, 0, 0]).unwrap();
        }
        peer.received();
        assert!(peer.send(HANDSHAKE, &[1, 0, 0, 0]).is_err());
        assert_eq!(peer.alert(), 10);
    }
}

#[test]
fn unexpected_messages_end_the_session() {
    for form in FORMATS {
        for (kind, content) in [
            (HANDSHAKE, &[2, 0, 0, 0][..]),
            (HANDSHAKE, &[20, 0, 0, 0]),
            (HANDSHAKE, &[]),
            (CHANGE_CIPHER_SPEC, &[1]),
            (24, &[1, 0, 0]),
            (255, b"x"),
        ] {
            let mut peer = harness(form);
            assert!(peer.send(kind, content).is_err(), "{form:?} {kind} {content:?}");
            assert_eq!(peer.alert(), 10, "{form:?} {kind} {content:?}");
        }
    }
}

#[test]
fn plaintext_record_after_handshake_ends_session() {
    for record in
        [&[CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1][..], &[ALERT, 3, 3, 0, 2, 1, 0], &[HANDSHAKE, 3, 3, 0, 1, 1]]
    {
        let mut peer = harness((true, false));
        assert!(peer.send_bytes(&mut record.to_vec()).is_err());
        assert_eq!((peer.alert(), peer.outcome.peer_has_closed), (10, false), "{record:?}");
    }
}

#[test]
fn data_inside_a_split_key_update_is_refused() {
    let mut peer = harness((true, false));
    peer.send(HANDSHAKE, &[24, 0]).unwrap();
    assert!(peer.send(APPLICATION_DATA, b"between").is_err());
    assert_eq!(peer.alert(), 10);
    assert!(peer.plain.is_empty());
}

#[test]
fn key_update_must_end_its_record() {
    let mut peer = harness((true, false));
    assert!(peer.send(HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]).is_err());
    assert_eq!(peer.alert(), 10);
    let mut unknown = harness((true, false));
    assert!(unknown.send(HANDSHAKE, &[24, 0, 0, 1, 2]).is_err());
    assert_eq!(unknown.alert(), 47);
    for length in [&[24, 0, 0, 0][..], &[24, 0, 0, 2, 0, 0], &[24, 1, 0, 1, 0]] {
        let mut peer = harness((true, false));
        assert!(peer.send(HANDSHAKE, length).is_err());
        assert_eq!(peer.alert(), 50, "{length:?}");
    }
}

#[test]
fn exhausted_tls12_key_seals_only_close_notify() {
    let last = (1 << 24) - 2;
    let mut peer = harness_at((false, false), last);
    peer.session.seal(&[IoSlice::new(b"the last")], &mut peer.sealed).unwrap();
    assert_eq!(peer.received(), [(APPLICATION_DATA, b"the last".to_vec())]);
    let sealed = peer.session.seal(&[IoSlice::new(b"one more")], &mut peer.sealed);
    assert!(matches!(sealed, Err(Failure::KeyExhausted)));
    peer.session.close(&mut peer.sealed);
    assert_eq!(peer.received(), [(ALERT, vec![1, 0])]);
}

#[test]
fn tls12_key_limit_is_signalled_early() {
    let is_near_key_limit = |form, left| harness_at(form, (1 << 24) - left).session.is_near_key_limit();
    let gcm = (false, false);
    let chacha = (false, true);
    assert!(!is_near_key_limit(gcm, limits::KEY_RECORDS_LEFT + 1));
    assert!(is_near_key_limit(gcm, limits::KEY_RECORDS_LEFT) && is_near_key_limit(gcm, 0));
    assert!(!is_near_key_limit(chacha, 0), "its limit is that of the sequence number");
}
