//! Tests the order of frames on request streams, where a request ends, and large sections.

use super::*;
use crate::h3::frame::put_head;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, kind, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// A part of a request, along with its field section.
#[derive(Debug, PartialEq)]
enum Read {
    Head(Option<Vec<u8>>),
    Content(u64),
    Trailers(Option<Vec<u8>>),
}

/// Reads a complete stream that arrives in pieces of this length. Content is joined.
fn read(bytes: &[u8], piece: usize) -> Result<(Vec<Read>, RequestStream), ErrorCode> {
    let copy = |section: Section<'_>| match section {
        Section::Whole(bytes) => Some(bytes.to_vec()),
        Section::TooLarge => None,
    };
    let mut stream = RequestStream::default();
    let mut parts = Vec::new();
    for mut input in bytes.chunks(piece) {
        while let Some(event) = stream.next(&mut input)? {
            match (parts.last_mut(), event) {
                (Some(Read::Content(before)), Event::Content(more)) => *before += more.len() as u64,
                (_, Event::Content(bytes)) => parts.push(Read::Content(bytes.len() as u64)),
                (_, Event::Head(section)) => parts.push(Read::Head(copy(section))),
                (_, Event::Trailers(section)) => parts.push(Read::Trailers(copy(section))),
                (_, Event::Ignored) => {}
            }
        }
    }
    Ok((parts, stream))
}

#[test]
fn a_request_has_a_head_content_and_trailers() {
    let bytes = [
        frame(0x21, b"grease"),
        frame(kind::HEADERS, b"head"),
        frame(kind::DATA, b"ab"),
        frame(kind::DATA, b""),
        frame(0x40, b""),
        frame(kind::DATA, b"c"),
        frame(kind::HEADERS, b"trailers"),
        frame(0x21, b""),
    ]
    .concat();

    for piece in 1..bytes.len() {
        let (events, stream) = read(&bytes, piece).unwrap();
        let expected = [
            Read::Head(Some(b"head".to_vec())),
            Read::Content(3),
            Read::Trailers(Some(b"trailers".to_vec())),
        ];
        assert_eq!(events, expected, "{piece}");
        assert_eq!(stream.end(), Ok(()));
    }
}

#[test]
fn frames_out_of_order_are_connection_errors() {
    let head = frame(kind::HEADERS, b"head");
    for frames in [
        vec![frame(kind::DATA, b"")],
        vec![head.clone(), head.clone(), head.clone()],
        vec![head.clone(), head.clone(), frame(kind::DATA, b"")],
        vec![head.clone(), frame(kind::SETTINGS, b"")],
        vec![head.clone(), frame(kind::GOAWAY, b"\0")],
        vec![head.clone(), frame(kind::MAX_PUSH_ID, b"\0")],
        vec![head.clone(), frame(kind::CANCEL_PUSH, b"\0")],
        vec![head.clone(), frame(kind::PUSH_PROMISE, b"\0")],
        vec![head.clone(), frame(kind::PRIORITY_UPDATE, b"\0")],
        vec![frame(0x2, b"")],
        vec![frame(0x6, b"")],
        vec![frame(0x8, b"")],
        vec![head, frame(0x9, b"")],
    ] {
        assert_eq!(read(&frames.concat(), 1000).err(), Some(ErrorCode::FrameUnexpected), "{frames:?}");
    }
}

#[test]
fn a_stream_ends_after_its_request() {
    let end = |bytes: &[u8]| read(bytes, 1000).unwrap().1.end();
    assert_eq!(end(b""), Err(EndError::Stream(ErrorCode::RequestIncomplete)));
    assert_eq!(end(&frame(0x21, b"")), Err(EndError::Stream(ErrorCode::RequestIncomplete)));
    let head = frame(kind::HEADERS, b"head");
    assert_eq!(end(&head[..3]), Err(EndError::Connection(ErrorCode::Frame)));
    assert_eq!(end(&head[..1]), Err(EndError::Connection(ErrorCode::Frame)));
    assert_eq!(end(&head), Ok(()));
}

#[test]
fn large_sections_are_skipped() {
    let length = usize::try_from(FIELD_SECTION_BYTES_MAX).unwrap();
    for (length, section) in [(length, Some(vec![0; length])), (length + 1, None)] {
        let (events, _) = read(&frame(kind::HEADERS, &vec![0; length]), 1000).unwrap();
        assert_eq!(events, [Read::Head(section)]);
    }
}
