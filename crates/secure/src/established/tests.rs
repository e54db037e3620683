//! What a peer may say beside content, and how often, against a peer that is made of the same records but of no rules.

use std::io::IoSlice;

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

use crate::established::Established;
use crate::record::{self, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, Protection};
use crate::{Failure, Opened, limits};

/// Both forms of TLS 1.2, and that of TLS 1.3 with either cipher.
const ALL: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A session with both ends of its wires.
struct Wires {
    session: Established,
    /// Seals what the session opens.
    peer: Protection,
    /// Opens what the session seals.
    ear: Protection,
    opened: Opened,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

fn protection(is_tls13: bool, is_chacha: bool, seed: u8, sequence: u64) -> Protection {
    let (key, iv) = (AeadKey::from([seed; 32]), Iv::from([seed; 12]));
    let secrets = if is_chacha {
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }
    } else {
        ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    };
    Protection::new(is_tls13, sequence, &secrets).unwrap()
}

fn wires_at((is_tls13, is_chacha): (bool, bool), sequence: u64) -> Wires {
    let half = |seed| protection(is_tls13, is_chacha, seed, sequence);
    let session = Established::new(half(1), half(2), None);
    let (plain, sealed) = (Vec::new(), Vec::new());
    Wires { session, peer: half(1), ear: half(2), opened: Opened::default(), plain, sealed }
}

fn wires(form: (bool, bool)) -> Wires {
    wires_at(form, 0)
}

impl Wires {
    fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut record = vec![0; content.len() + self.peer.form().overhead()];
        self.peer.seal(kind, content, &mut record).unwrap();
        record
    }

    /// The peer sends a record.
    fn say(&mut self, kind: u8, content: &[u8]) -> Result<(), Failure> {
        let mut record = self.record(kind, content);
        self.hear(&mut record)
    }

    fn hear(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.opened = Opened::default();
        self.session.open(bytes, &mut self.opened, &mut self.plain, &mut self.sealed)
    }

    /// What the session has said since: kinds and contents.
    fn heard(&mut self) -> Vec<(u8, Vec<u8>)> {
        let (mut sealed, mut records) = (std::mem::take(&mut self.sealed), Vec::new());
        let mut rest = sealed.as_mut_slice();
        while let Some(length) = record::length(rest) {
            let (record, behind) = rest.split_at_mut(length);
            let (kind, content) = self.ear.open(record).unwrap();
            records.push((kind, content.to_vec()));
            rest = behind;
        }
        records
    }

    /// The fatal alert that ends the session.
    fn alert(&mut self) -> u8 {
        match self.heard().as_slice() {
            [(ALERT, content)] => match content.as_slice() {
                [2, alert] => *alert,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn content_passes_both_ways_in_every_form() {
    for form in ALL {
        let mut wires = wires_at(form, 7);
        wires.say(APPLICATION_DATA, b"one").unwrap();
        wires.say(APPLICATION_DATA, b" and two").unwrap();
        assert_eq!(wires.plain, b"one and two", "{form:?}");
        wires.session.seal(&[IoSlice::new(b"an "), IoSlice::new(b"answer")], &mut wires.sealed).unwrap();
        assert_eq!(wires.heard(), [(APPLICATION_DATA, b"an answer".to_vec())], "{form:?}");
    }
}

#[test]
fn a_record_changed_in_any_bit_is_refused() {
    for form in ALL {
        let length = wires(form).record(APPLICATION_DATA, b"content").len();
        for place in 0..length {
            // Other lengths make other records of the bytes.
            if (3..5).contains(&place) {
                continue;
            }
            for bit in 0..8 {
                let mut wires = wires(form);
                let mut record = wires.record(APPLICATION_DATA, b"content");
                record[place] ^= 1 << bit;
                assert!(wires.hear(&mut record).is_err(), "{form:?} byte {place} bit {bit}");
                assert!(wires.plain.is_empty());
                assert!([20, 10].contains(&wires.alert()));
            }
        }
    }
}

#[test]
fn a_record_that_comes_twice_or_out_of_order_is_refused() {
    for form in ALL {
        let mut twice = wires(form);
        let record = twice.record(APPLICATION_DATA, b"pay");
        twice.hear(&mut record.clone()).unwrap();
        assert!(matches!(twice.hear(&mut record.clone()), Err(Failure::Damaged)), "{form:?}");
        let mut swapped = wires(form);
        let _first = swapped.record(APPLICATION_DATA, b"one");
        let mut second = swapped.record(APPLICATION_DATA, b"two");
        assert!(matches!(swapped.hear(&mut second), Err(Failure::Damaged)), "{form:?}");
        assert_eq!(swapped.alert(), 20);
    }
}

#[test]
fn records_too_short_or_too_long_are_refused() {
    for form in ALL {
        for length in 0..24_u8 {
            let mut wires = wires(form);
            let mut record = vec![0; 5 + usize::from(length)];
            record[..5].copy_from_slice(&[APPLICATION_DATA, 3, 3, 0, length]);
            assert!(wires.hear(&mut record).is_err(), "{form:?} {length}");
        }
        let mut head = [APPLICATION_DATA, 3, 3, 0xff, 0xff];
        let mut announced = wires(form);
        assert!(announced.hear(&mut head).is_err());
        assert_eq!(announced.alert(), 22);
        let mut filled = wires(form);
        filled.say(APPLICATION_DATA, &vec![1; limits::CONTENT_BYTES_MAX]).unwrap();
        let content = vec![1; limits::CONTENT_BYTES_MAX + 1];
        assert!(filled.say(APPLICATION_DATA, &content).is_err());
        assert_eq!(filled.alert(), 22, "{form:?}");
    }
}

#[test]
fn padding_is_taken_off_and_nothing_but_padding_is_refused() {
    let mut wires = wires((true, false));
    // The type is what `record` puts behind the content: so this is content, its type, and padding that ends in zero.
    let mut record = wires.record(0, b"content\x17\0\0\0");
    wires.hear(&mut record).unwrap();
    assert_eq!(wires.plain, b"content");
    let mut record = wires.record(0, &[0; 100]);
    assert!(wires.hear(&mut record).is_err());
    assert_eq!(wires.alert(), 10);
}

#[test]
fn records_without_content_are_borne_for_a_while_and_content_forgives_them() {
    for form in ALL {
        let mut wires = wires(form);
        for _ in 0..3 {
            for _ in 0..limits::BARREN_RECORDS_MAX {
                wires.say(APPLICATION_DATA, b"").unwrap();
            }
            wires.say(APPLICATION_DATA, b"x").unwrap();
        }
        for _ in 0..limits::BARREN_RECORDS_MAX {
            wires.say(APPLICATION_DATA, b"").unwrap();
        }
        assert!(wires.say(APPLICATION_DATA, b"").is_err());
        assert_eq!(wires.alert(), 10);
    }
}

#[test]
fn the_end_is_taken_and_said_once() {
    for form in ALL {
        let mut wires = wires(form);
        let mut bytes = wires.record(ALERT, &[1, 0]);
        bytes.extend_from_slice(b"what follows is nobody's");
        wires.hear(&mut bytes).unwrap();
        assert!(wires.opened.has_ended);
        assert_eq!(wires.opened.used, bytes.len());
        wires.session.close(&mut wires.sealed);
        wires.session.close(&mut wires.sealed);
        assert_eq!(wires.heard(), [(ALERT, vec![1, 0])]);
    }
}

#[test]
fn alerts_end_the_session_unless_they_are_warnings_of_tls_1_2() {
    for form in ALL {
        let mut fatal = wires(form);
        assert!(matches!(fatal.say(ALERT, &[2, 48]), Err(Failure::Alert(name)) if name == "UnknownCA"));
        let mut warned = wires(form);
        assert_eq!(warned.say(ALERT, &[1, 112]).is_ok(), !form.0, "{form:?}");
        let mut canceled = wires(form);
        canceled.say(ALERT, &[1, 90]).unwrap();
        // RFC 8446 §5.4: a record of no alert at all is another fault than an alert that cannot be read.
        for (none, expected) in [(&[][..], 10), (&[2], 50), (&[2, 40, 0], 50), (&[3, 40], 50)] {
            let mut wires = wires(form);
            assert!(wires.say(ALERT, none).is_err());
            assert_eq!(wires.alert(), expected, "{form:?} {none:?}");
        }
    }
}

#[test]
fn who_ended_with_an_alert_is_told_nothing_more() {
    for form in ALL {
        for alert in [40, 90] {
            // Without a meaning of its own in TLS 1.3, the level decides in TLS 1.2 whether who cancels goes on.
            let mut wires = wires(form);
            let ends = wires.say(ALERT, &[2, alert]).is_err();
            assert_eq!(ends, alert == 40 || !form.0, "{form:?} {alert}");
            wires.session.close(&mut wires.sealed);
            assert_eq!(wires.heard().len(), usize::from(!ends), "{form:?} {alert}");
        }
    }
}

#[test]
fn nothing_is_sealed_behind_the_end() {
    for form in ALL {
        let mut closed = wires(form);
        closed.session.close(&mut closed.sealed);
        let mut failed = wires(form);
        failed.say(255, b"x").unwrap_err();
        for mut wires in [closed, failed] {
            let said = wires.heard();
            let sealed = wires.session.seal(&[IoSlice::new(b"more")], &mut wires.sealed);
            assert!(matches!(sealed, Err(Failure::Internal(_))), "{form:?} behind {said:?}");
            // Neither is what else would be answered.
            let again = if form.0 { (255, &b"x"[..]) } else { (HANDSHAKE, &[1, 0, 0, 0][..]) };
            let _ = wires.say(again.0, again.1);
            assert_eq!(wires.heard(), []);
        }
    }
}

#[test]
fn no_number_of_a_record_is_used_twice_at_the_end_of_all_numbers() {
    for (is_chacha, last) in [(false, (1 << 24) - 1), (true, u64::MAX - 1)] {
        for is_tls13 in [false, true] {
            let mut sealing = protection(is_tls13, is_chacha, 1, last);
            let mut room = vec![0; sealing.form().overhead() + 1];
            assert_eq!(sealing.seal(APPLICATION_DATA, b"x", &mut room), Some(()));
            assert_eq!(sealing.seal(APPLICATION_DATA, b"x", &mut room), None);
            assert_eq!(sealing.seal_gathered(APPLICATION_DATA, &mut room, |_| ()), None);
        }
    }
}

#[test]
fn the_head_of_a_record_that_is_too_long_is_enough() {
    // RFC 8446 §5.2 and RFC 5246 §6.2.3: what may be added to the content differs.
    for (form, added) in
        [((true, false), 256), ((true, true), 256), ((false, false), 2048), ((false, true), 2048)]
    {
        for (length, is_too_long) in [((1 << 14) + added, false), ((1 << 14) + added + 1, true)] {
            let [high, low] = u16::to_be_bytes(length);
            let mut wires = wires(form);
            assert_eq!(
                wires.hear(&mut [APPLICATION_DATA, 3, 3, high, low]).is_err(),
                is_too_long,
                "{form:?}"
            );
            if is_too_long {
                assert_eq!(wires.alert(), 22, "{form:?} {length}");
            }
        }
    }
}

#[test]
fn shaking_hands_again_is_refused_and_the_session_goes_on() {
    for is_chacha in [false, true] {
        let mut wires = wires((false, is_chacha));
        wires.say(HANDSHAKE, &[1, 0, 0, 2, 3, 3]).unwrap();
        assert_eq!(wires.heard(), [(ALERT, vec![1, 100])]);
        wires.say(APPLICATION_DATA, b"still here").unwrap();
        assert_eq!(wires.plain, b"still here");
        for _ in 0..limits::BARREN_RECORDS_MAX {
            wires.say(HANDSHAKE, &[1, 0, 0, 0]).unwrap();
        }
        wires.heard();
        assert!(wires.say(HANDSHAKE, &[1, 0, 0, 0]).is_err());
        assert_eq!(wires.alert(), 10);
    }
}

#[test]
fn messages_that_cannot_come_now_end_the_session() {
    for form in ALL {
        for (kind, content) in [
            (HANDSHAKE, &[2, 0, 0, 0][..]),
            (HANDSHAKE, &[20, 0, 0, 0]),
            (HANDSHAKE, &[]),
            (CHANGE_CIPHER_SPEC, &[1]),
            (24, &[1, 0, 0]),
            (255, b"x"),
        ] {
            let mut wires = wires(form);
            assert!(wires.say(kind, content).is_err(), "{form:?} {kind} {content:?}");
            assert_eq!(wires.alert(), 10, "{form:?} {kind} {content:?}");
        }
    }
}

#[test]
fn records_in_the_clear_behind_the_handshake_end_the_session() {
    for record in
        [&[CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1][..], &[ALERT, 3, 3, 0, 2, 1, 0], &[HANDSHAKE, 3, 3, 0, 1, 1]]
    {
        let mut wires = wires((true, false));
        assert!(wires.hear(&mut record.to_vec()).is_err());
        assert_eq!((wires.alert(), wires.opened.has_ended), (10, false), "{record:?}");
    }
}

#[test]
fn no_content_may_come_between_the_parts_of_a_key_update() {
    let mut wires = wires((true, false));
    wires.say(HANDSHAKE, &[24, 0]).unwrap();
    assert!(wires.say(APPLICATION_DATA, b"between").is_err());
    assert_eq!(wires.alert(), 10);
    assert!(wires.plain.is_empty());
}

#[test]
fn nothing_may_follow_a_key_update_in_its_record() {
    let mut wires = wires((true, false));
    assert!(wires.say(HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]).is_err());
    assert_eq!(wires.alert(), 10);
    let mut unknown = self::wires((true, false));
    assert!(unknown.say(HANDSHAKE, &[24, 0, 0, 1, 2]).is_err());
    assert_eq!(unknown.alert(), 47);
    for length in [&[24, 0, 0, 0][..], &[24, 0, 0, 2, 0, 0], &[24, 1, 0, 1, 0]] {
        let mut wires = self::wires((true, false));
        assert!(wires.say(HANDSHAKE, length).is_err());
        assert_eq!(wires.alert(), 50, "{length:?}");
    }
}

#[test]
fn a_key_of_tls_1_2_that_is_used_up_seals_no_more_but_the_end() {
    let last = (1 << 24) - 2;
    let mut wires = wires_at((false, false), last);
    wires.session.seal(&[IoSlice::new(b"the last")], &mut wires.sealed).unwrap();
    assert_eq!(wires.heard(), [(APPLICATION_DATA, b"the last".to_vec())]);
    let sealed = wires.session.seal(&[IoSlice::new(b"one more")], &mut wires.sealed);
    assert!(matches!(sealed, Err(Failure::KeyUsedUp)));
    wires.session.close(&mut wires.sealed);
    assert_eq!(wires.heard(), [(ALERT, vec![1, 0])]);
}

#[test]
fn a_key_of_tls_1_2_says_early_that_it_wears_out() {
    let is_wearing_out = |form, left| wires_at(form, (1 << 24) - left).session.is_wearing_out();
    let (gcm, chacha) = ((false, false), (false, true));
    assert!(!is_wearing_out(gcm, limits::KEY_RECORDS_LEFT + 1));
    assert!(is_wearing_out(gcm, limits::KEY_RECORDS_LEFT) && is_wearing_out(gcm, 0));
    assert!(!is_wearing_out(chacha, 0), "its key seals as many records as there can be");
}
