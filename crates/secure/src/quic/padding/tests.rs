//! Tests of padding: that of valid packets is found, and nothing else is removed.

use proptest::prelude::*;

use super::*;

/// Two forms of each frame that doesn't extend to the end of its packet.
const FRAMES: [&[u8]; 25] = [
    b"\x01",
    b"\x02\x00\x00\x00\x00",
    b"\x02\x7f\xff\x00\x01\x05\x00\x40\x00",
    b"\x03\x05\x00\x00\x05\x00\x00\x00",
    b"\x04\x00\x00\x00",
    b"\x05\x00\x41\x00",
    b"\x06\x00\x04\x00\x00\x00\x00",
    b"\x07\x02\x00\x00",
    b"\x0a\x00\x03\x00\x00\x00",
    b"\x0b\x40\x00\x00",
    b"\x0e\x00\x00\x03abc",
    b"\x0f\x00\x80\x00\x00\x00\x03\x00\x00\x00",
    b"\x10\x00",
    b"\x11\x00\x00",
    b"\x12\xc0\x00\x00\x00\x00\x00\x00\x00",
    b"\x13\x00",
    b"\x14\x00",
    b"\x15\x00\x00",
    b"\x16\x00",
    b"\x17\x00",
    b"\x18\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x19\x00",
    b"\x1a\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x1e",
    b"\x1f",
];

#[test]
fn padding_after_each_frame_is_found() {
    for frame in FRAMES {
        let mut payload = frame.to_vec();
        payload.resize(frame.len() + 1200, 0);
        assert_eq!(length_without_padding(&payload), frame.len() + 1, "{frame:02x?}");
    }
}

#[test]
fn packet_of_padding_keeps_one_byte() {
    assert_eq!(length_without_padding(&[0; 1200]), 1);
}

#[test]
fn short_padding_stays() {
    assert_eq!(length_without_padding(b""), 0);
    assert_eq!(length_without_padding(b"\x01\x00\x00"), 3);
}

#[test]
fn zeros_of_a_stream_to_the_end_of_the_packet_are_no_padding() {
    for frame_type in [0x08, 0x09, 0x0c, 0x0d] {
        let mut payload = vec![frame_type];
        payload.resize(1200, 0);
        assert_eq!(length_without_padding(&payload), 1200);
    }
}

#[test]
fn zeros_of_unknown_and_cut_frames_are_no_padding() {
    for start in
        [&b"\x20"[..], b"\x40\x01", b"\x30", b"\x1c\x00\x00\x00", b"\x0a\x00\x50\x00", b"\x02\x00\x00\xff"]
    {
        let mut payload = start.to_vec();
        payload.resize(200, 0);
        assert_eq!(length_without_padding(&payload), 200, "{start:02x?}");
    }
}

proptest! {
    #[test]
    fn frames_before_padding_stay(
        frames in prop::collection::vec(prop::sample::select(&FRAMES[..]), 0..20),
        padding in PADDING_BYTES_MIN..1200,
    ) {
        let frames = frames.concat();
        let mut payload = frames.clone();
        payload.resize(frames.len() + padding, 0);
        prop_assert_eq!(length_without_padding(&payload), frames.len() + 1);
    }

    #[test]
    fn only_zeros_are_removed(mut payload in prop::collection::vec(any::<u8>(), 0..100), zeros in 0..100_usize) {
        payload.resize(payload.len() + zeros, 0);
        let length = length_without_padding(&payload);
        prop_assert!(payload.is_empty() || length > 0);
        prop_assert!(payload[length..].iter().all(|byte| *byte == 0));
    }
}
