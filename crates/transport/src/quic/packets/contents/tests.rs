//! Unit tests of payloads: padding, copies, acknowledgments of hidden packets.

use super::*;

fn opened(level: Level, frames: &[u8], records: Option<&Records>) -> Vec<u8> {
    let mut payload = BytesMut::from(frames);
    receive(level, &[], &mut payload, records);
    payload.to_vec()
}

#[test]
fn long_padding_at_the_end_is_cut_off() {
    let padded = |frames: &[u8], padding: usize| [frames, &vec![0; padding]].concat();
    for (frames, padding, expected) in [
        (&[1][..], 1200, 2),
        (&[], 1200, 1),
        (&[1], 2, 3),
        (&[0, 0, 1], 100, 4),
        // A stream without a length, and an unknown frame.
        (&[0x08, 4], 100, 102),
        (&[0x20], 100, 101),
    ] {
        let payload = opened(Level::Application, &padded(frames, padding), Some(&Records::default()));
        assert_eq!(payload.len(), expected, "{frames:x?}");
    }
}

#[test]
fn first_packet_keeps_its_length() {
    let padded = [&[1][..], &[0; 1100]].concat();
    assert_eq!(opened(Level::Initial, &padded, None), padded);
}

#[test]
fn small_payload_has_memory_of_its_own() {
    let records = Records::default();
    records.begin_datagram(1472);
    let frames = [&[0x0e, 4, 1, 1, b'x'][..], &[0; 1300]].concat();
    let mut payload = BytesMut::from(&frames[..]);
    let before = payload.as_ptr();
    receive(Level::Application, &[], &mut payload, Some(&records));
    assert_ne!(payload.as_ptr(), before);
    let piece = records.lock().pieces[0];
    assert_eq!((piece.stream, piece.end, piece.count), (4, 2, 1));
    assert!(piece.bytes < 100, "{piece:?}");

    // Nothing is kept of this one.
    let mut payload = BytesMut::from(&[0; 1300][..]);
    let before = payload.as_ptr();
    receive(Level::Application, &[], &mut payload, Some(&records));
    assert_eq!(payload.as_ptr(), before);
}

#[test]
fn hidden_packets_are_not_acknowledged() {
    let records = Records::default();
    records.lock().restricted().hidden = vec![5, 9];
    let ack = |largest, rest: &[u8]| [&[2, largest, 3][..], rest].concat();

    for (frame, expected) in [
        // Ranges that have one in the middle, at the end, and at the start.
        (ack(8, &[0, 8]), ack(8, &[1, 2, 0, 4])),
        (ack(9, &[0, 3]), ack(8, &[0, 2])),
        (ack(8, &[1, 1, 0, 3]), ack(8, &[1, 1, 1, 2])),
        // Both, and neither.
        (ack(10, &[0, 10]), ack(10, &[2, 0, 0, 2, 0, 4])),
        (ack(4, &[0, 4]), ack(4, &[0, 4])),
    ] {
        let following = [&frame[..], &[1]].concat();
        let expected = [&expected[..], &[1]].concat();
        assert_eq!(opened(Level::Application, &following, Some(&records)), expected);
        records.lock().acknowledged_max = 0;
    }

    // Nothing else is acknowledged, so no frame is left.
    assert_eq!(opened(Level::Application, &ack(9, &[0, 0]), Some(&records)), [0]);

    // ECN counts stay.
    let ecn = [3, 9, 3, 0, 1, 7, 8, 9];
    assert_eq!(opened(Level::Application, &ecn, Some(&records)), [3, 8, 3, 0, 0, 7, 8, 9]);
}

#[test]
fn hidden_packets_are_forgotten_when_they_are_lost() {
    let records = Records::default();
    records.lock().restricted().hidden = vec![5];
    opened(Level::Application, &[2, 8, 0, 0, 8], Some(&records));
    assert_eq!(records.lock().restricted().hidden, [5], "the library learns of number 8 from this packet");
    opened(Level::Application, &[1], Some(&records));
    assert!(records.lock().restricted().hidden.is_empty());
}

#[test]
fn connection_id_is_not_retired_by_a_packet_that_uses_it() {
    let records = Records::default();
    let issue = |sequence, id: [u8; 10]| [&[0x18, sequence, 0, 10][..], &id, &[0; 16]].concat();
    records.lock().issue_ids(&[issue(1, [1; 10]), issue(2, [2; 10]), issue(1, [1; 10])].concat());
    assert_eq!(records.lock().own_ids.len(), 2);
    let is_permitted = |used: u8, sequence| {
        let header = [&[0x41][..], &[used; 10], &[7, 7]].concat();
        let mut payload = BytesMut::from(&[0x19, sequence][..]);
        receive(Level::Application, &header, &mut payload, Some(&records));
        payload[..] == [0x19, sequence]
    };
    // The first one is not in a frame.
    let uses = [(0, 0, false), (1, 1, false), (0, 1, true), (2, 2, false), (2, 0, true), (2, 1, true)];
    for (used, sequence, expected) in uses {
        assert_eq!(is_permitted(used, sequence), expected, "{used} {sequence}");
    }
    // A late packet with an ID that was retired.
    assert!(is_permitted(1, 0));
}
