//! Unit tests of frames.

use proptest::prelude::*;

use super::*;

/// Two forms of each frame that does not extend to the end of its packet.
const FRAMES: [&[u8]; 31] = [
    b"\x01",
    b"\x40\x01",
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
    b"\x1b\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x1c\x00\x00\x01\x00",
    b"\x1d\x00\x01\x00",
    b"\x1e",
    b"\x1f",
    b"\x31\x01\x00",
    b"\x40\xaf\x00\x00\x00\x00",
];

fn positions(payload: &[u8]) -> Vec<Range<usize>> {
    Frames::new(payload).map(|(position, _)| position).collect()
}

#[test]
fn padding_after_each_frame_is_one_frame() {
    for frame in FRAMES {
        let payload = [frame, &[0; 1200]].concat();
        assert_eq!(positions(&payload), [0..frame.len(), frame.len()..payload.len()], "{frame:02x?}");
    }
    assert_eq!(positions(&[0; 7]), std::slice::from_ref(&(0..7)));
    assert_eq!(positions(&[]), []);
}

#[test]
fn stream_frames_alone_are_removed_at_once() {
    for frame in FRAMES {
        let mut frames = Frames::new(frame);
        let expected = Frames::new(frame).next().and_then(|(_, frame)| match frame {
            Frame::Stream(stream) => Some(stream),
            _ => None,
        });
        assert_eq!(frames.next_stream(), expected, "{frame:02x?}");
        assert_eq!(frames.read_bytes(), if expected.is_some() { frame.len() } else { 0 });
    }
    // Its data is missing.
    let mut frames = Frames::new(b"\x0a\x00\x03ab");
    assert_eq!((frames.next_stream(), frames.read_bytes()), (None, 0));
}

#[test]
fn stream_without_length_extends_to_the_end() {
    for frame_type in [0x08, 0x09, 0x0c, 0x0d] {
        let mut payload = vec![frame_type, 4];
        payload.resize(1200, 0);
        let offset_bytes = usize::from(frame_type & 4 != 0);
        let bytes = 1198 - offset_bytes;
        let frame = Frame::Stream(StreamData { id: 4, end: bytes as u64, bytes });
        assert_eq!(Frames::new(&payload).collect::<Vec<_>>(), [(0..1200, frame)]);
    }
}

#[test]
fn unknown_and_cut_frames_end_the_iteration() {
    for start in
        [&b"\x20"[..], b"\x7f\xff", b"\x1c\x00\x00\x7f\xff", b"\x0a\x00\x50\x00\x00", b"\x02\x00\x00\xff"]
    {
        let payload = [b"\x01", start, &[0; 100]].concat();
        assert_eq!(positions(&payload), std::slice::from_ref(&(0..1)), "{start:02x?}");
    }
}

proptest! {
    #[test]
    fn frames_follow_each_other(
        frames in prop::collection::vec(prop::sample::select(&FRAMES[..]), 0..20),
        padding in 1..1200_usize,
    ) {
        let count = frames.len() + 1;
        let mut payload = frames.concat();
        payload.resize(payload.len() + padding, 0);
        let positions = positions(&payload);
        prop_assert_eq!(positions.len(), count);
        prop_assert_eq!(positions[count - 1].clone(), payload.len() - padding..payload.len());
    }

    #[test]
    fn any_bytes_are_read(payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let positions = positions(&payload);
        prop_assert!(positions.iter().all(|position| !position.is_empty() && position.end <= payload.len()));
    }

    #[test]
    fn integers_are_read_as_written(value in 0..1_u64 << 62, shift in 0..62_u32) {
        let mut bytes = Vec::new();
        put_integer(value >> shift, &mut bytes);
        prop_assert_eq!(read_integer(&mut &bytes[..]), Some(value >> shift));
    }
}
