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
