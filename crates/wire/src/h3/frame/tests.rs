//! Tests that frames can arrive in pieces of any size, and that they can be incomplete.

use proptest::prelude::*;

use super::*;

/// Splits a stream into frames. It arrives in pieces of `piece` bytes.
fn frames(stream: &[u8], piece: usize) -> Vec<(u64, Vec<u8>)> {
    let mut reader = FrameReader::default();
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            match reader.next(&mut input) {
                Part::Incomplete => break assert!(input.is_empty()),
                Part::Head { kind, .. } => frames.push((kind, Vec::new())),
                Part::Payload { bytes, is_last } => {
                    frames.last_mut().unwrap().1.extend_from_slice(bytes);
                    assert!(is_last || input.is_empty());
                }
            }
        }
    }
    assert!(reader.is_between_frames());
    frames
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        sent in prop::collection::vec((0..=varint::MAX, prop::collection::vec(any::<u8>(), 0..100)), 0..8),
        piece in 1_usize..50,
    ) {
        let mut stream = Vec::new();
        for (kind, payload) in &sent {
            put_head(&mut stream, *kind, payload.len() as u64);
            stream.extend_from_slice(payload);
        }
        prop_assert_eq!(frames(&stream, piece), sent);
    }
}

#[test]
fn an_incomplete_frame_is_noticed() {
    let mut reader = FrameReader::default();
    assert!(reader.is_between_frames());
    assert_eq!(reader.next(&mut &[0x40][..]), Part::Incomplete);
    assert!(!reader.is_between_frames());
    assert_eq!(reader.next(&mut &[0x01, 0x02][..]), Part::Head { kind: 1, length: 2 });
    assert_eq!(reader.next(&mut &b"a"[..]), Part::Payload { bytes: b"a", is_last: false });
    assert!(!reader.is_between_frames());
    assert_eq!(reader.next(&mut &b"bc"[..]), Part::Payload { bytes: b"b", is_last: true });
    assert!(reader.is_between_frames());
}

#[test]
fn a_whole_frame_is_taken_at_once() {
    let whole = |bytes: &[u8], bytes_max| {
        let mut input = bytes;
        let payload = FrameReader::default().next_whole(1, bytes_max, &mut input).map(<[u8]>::to_vec);
        (payload, input.len())
    };
    assert_eq!(whole(b"\x01\x02abc", 2), (Some(b"ab".to_vec()), 1));
    assert_eq!(whole(b"\x01\x00", 2), (Some(Vec::new()), 0));
    // A long frame, another type, an incomplete payload or head.
    for other in [&b"\x01\x03abc"[..], b"\x00\x02ab", b"\x01\x02a", b"\x01", b""] {
        assert_eq!(whole(other, 2), (None, other.len()), "{other:?}");
    }

    // These bytes look like a frame, but they belong to the one before.
    let mut reader = FrameReader::default();
    assert_eq!(reader.next(&mut &b"\x00\x05"[..]), Part::Head { kind: 0, length: 5 });
    assert_eq!(reader.next_whole(1, 2, &mut &b"\x01\x02abc"[..]), None);
    let mut reader = FrameReader::default();
    assert_eq!(reader.next(&mut &b"\x01"[..]), Part::Incomplete);
    assert_eq!(reader.next_whole(1, 2, &mut &b"\x01\x02abc"[..]), None);
}
