//! Tests the order of frames on the control stream, and their limits.

use super::*;
use crate::h3::frame::put_head;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, kind, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads a control stream. It starts with empty SETTINGS.
fn read(frames: &[Vec<u8>]) -> Result<Vec<Notice>, ErrorCode> {
    read_all(&[&[frame(kind::SETTINGS, b"")], frames].concat().concat())
}

fn read_all(bytes: &[u8]) -> Result<Vec<Notice>, ErrorCode> {
    let mut stream = ControlStream::default();
    let mut notices = Vec::new();
    let mut input = bytes;
    while let Some(notice) = stream.next(&mut input)? {
        notices.push(notice);
    }
    Ok(notices)
}

#[test]
fn frames_take_effect() {
    let grease = frame(0x21 + 0x1f * 7, b"anything");
    let notices = read(&[
        grease,
        frame(kind::MAX_PUSH_ID, &[4]),
        frame(kind::GOAWAY, &[4]),
        frame(kind::GOAWAY, &[0]),
        frame(kind::PRIORITY_UPDATE, b"\x08u=1, i"),
    ]);
    let settings = Notice::Settings(PeerSettings::default());
    let priority =
        Notice::Priority { stream: StreamId::new(8), priority: Priority { urgency: 1, incremental: true } };
    let other = Notice::Other;
    assert_eq!(notices, Ok(vec![settings, other, other, other, other, priority]));
}

#[test]
fn settings_come_first_and_once() {
    assert_eq!(read_all(&frame(kind::GOAWAY, &[0])), Err(ErrorCode::MissingSettings));
    assert_eq!(read_all(&frame(0x21, b"")), Err(ErrorCode::MissingSettings));
    assert_eq!(read(&[frame(kind::SETTINGS, b"")]), Err(ErrorCode::FrameUnexpected));
}

#[test]
fn invalid_frames_are_connection_errors() {
    for (kind, payload, code) in [
        (kind::DATA, &b""[..], ErrorCode::FrameUnexpected),
        (kind::HEADERS, b"", ErrorCode::FrameUnexpected),
        (kind::PUSH_PROMISE, b"\0", ErrorCode::FrameUnexpected),
        (0x2, b"", ErrorCode::FrameUnexpected),
        (0x6, b"", ErrorCode::FrameUnexpected),
        (0x8, b"", ErrorCode::FrameUnexpected),
        (0x9, b"", ErrorCode::FrameUnexpected),
        (kind::CANCEL_PUSH, b"\0", ErrorCode::Id),
        (kind::CANCEL_PUSH, b"", ErrorCode::Frame),
        (kind::GOAWAY, b"", ErrorCode::Frame),
        (kind::GOAWAY, b"\0\0", ErrorCode::Frame),
        (kind::MAX_PUSH_ID, b"\x40", ErrorCode::Frame),
        (kind::PRIORITY_UPDATE, b"", ErrorCode::Frame),
        (kind::PRIORITY_UPDATE, b"\x01u=1", ErrorCode::Id),
        (kind::PRIORITY_UPDATE_PUSH, b"\0u=1", ErrorCode::Id),
    ] {
        assert_eq!(read(&[frame(kind, payload)]), Err(code), "{kind:#x} {payload:?}");
    }

    let decreasing = [frame(kind::MAX_PUSH_ID, &[4]), frame(kind::MAX_PUSH_ID, &[3])];
    assert_eq!(read(&decreasing), Err(ErrorCode::Id));
    let increasing = [frame(kind::GOAWAY, &[3]), frame(kind::GOAWAY, &[4])];
    assert_eq!(read(&increasing), Err(ErrorCode::Id));
}

#[test]
fn large_frames_are_refused_by_their_head() {
    let mut bytes = frame(kind::SETTINGS, b"");
    put_head(&mut bytes, kind::PRIORITY_UPDATE, CONTROL_FRAME_BYTES_MAX + 1);
    assert_eq!(read_all(&bytes), Err(ErrorCode::ExcessiveLoad));
}
