//! Tests for requests that are answered later, along with their content.

use std::time::{Duration, Instant};

use cannery_testkit::http2::{END_STREAM, data, reset};

use super::super::flow::Window;
use super::peer::{Content, Frame, Peer, RECEIVED_BYTES_MAX, get, post};
use crate::response::multiplexed::{BodyFollows, Multiplexed, OwnHead, Resumption};
use crate::response::server_fields::ServerFields;

const CONTENT_LENGTH: &str = "content-length";

/// Sends content in frames of 10,000 bytes. Returns the frames that the connection writes.
fn send_content(peer: &mut Peer, stream: u32, content: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut parts = content.chunks(10_000).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() { END_STREAM } else { 0 };
        frames.extend(peer.send(&data(stream, flags, part)));
    }
    frames
}

/// Returns the status and content of a stream's response.
fn response(frames: &[Frame], stream: u32) -> (Option<u16>, Vec<u8>) {
    let mut status = None;
    let mut content = Vec::new();
    for frame in frames {
        match frame {
            Frame::Headers(id, code, _) if *id == stream => status = Some(*code),
            Frame::Data(id, Content(bytes), _) if *id == stream => content.extend_from_slice(bytes),
            _ => {}
        }
    }
    (status, content)
}

#[test]
fn content_is_received_beyond_the_first_window() {
    let mut peer = Peer::open();
    let content: Vec<u8> = (0..RECEIVED_BYTES_MAX).map(|number| number.to_le_bytes()[1]).collect();
    assert_eq!(peer.send(&post(1, "/received", &[])), []);
    // In the meantime, other requests are answered.
    assert_eq!(response(&peer.send(&get(3, "/13")), 3).0, Some(200));
    let frames = send_content(&mut peer, 1, &content);
    let windows: u64 = frames
        .iter()
        .map(|frame| if let Frame::WindowUpdate(1, more) = frame { u64::from(*more) } else { 0 })
        .sum();
    assert!(windows + 65_535 >= content.len() as u64, "{windows}");
    let (status, echoed) = response(&frames, 1);
    assert_eq!(status, Some(200));
    assert!(content.starts_with(&echoed) && !echoed.is_empty());
}

#[test]
fn content_that_is_too_long_is_refused_at_once() {
    let mut peer = Peer::open();
    peer.send(&post(1, "/received", &[]));
    let frames = send_content(&mut peer, 1, &vec![0; RECEIVED_BYTES_MAX + 1]);
    assert_eq!(response(&frames, 1).0, Some(413));
}

#[test]
fn announced_length_is_checked() {
    let mut peer = Peer::open();
    peer.send(&post(1, "/received", &[(CONTENT_LENGTH, "5")]));
    let frames = peer.send(&data(1, END_STREAM, b"four"));
    assert!(matches!(frames[..], [Frame::Reset(1, _)]), "{frames:?}");
    assert!(!peer.connection.has_pending_bytes());
}

#[test]
fn postponed_request_is_answered_unless_it_is_reset() {
    let mut peer = Peer::open();
    assert_eq!(peer.send(&[get(1, "/later"), get(3, "/later")].concat()), []);
    let [first, second] = peer.postponed[..] else { panic!("two requests") };
    peer.send(&reset(1));
    assert_eq!(peer.connection.resume(first), Resumption::Gone);

    assert_eq!(peer.connection.resume(second), Resumption::Ready);
    peer.connection.respond_with_head(
        second,
        &OwnHead::new(&[(":status", b"200")]),
        b"late",
        &mut peer.output,
    );
    assert_eq!(response(&peer.drain(), 3), (Some(200), b"late".to_vec()));
    assert_eq!(peer.connection.resume(second), Resumption::Gone, "it is answered once");
}

/// The client was held back, and then has to end the content in time.
#[test]
fn answered_upload_is_on_the_clock() {
    let start = Instant::now();
    let later = start + Duration::from_secs(50);
    let upload = || {
        let mut peer = Peer::open();
        peer.store.set_time(start);
        peer.send(&post(1, "/later", &[]));
        let stream = peer.postponed[0];
        peer.connection.stream_content(stream, 100);
        assert_eq!(peer.connection.incomplete_since(), Some(start));
        peer.connection.hold_content(stream);
        assert_eq!(peer.connection.incomplete_since(), None);
        peer.connection.set_time(later);
        assert_eq!(peer.connection.resume(stream), Resumption::Ready);
        (peer, stream)
    };
    let head = OwnHead::new(&[(":status", b"200")]);

    // The handler's content ends with the response.
    let (mut peer, stream) = upload();
    peer.connection.respond_with_head(stream, &head, b"early", &mut peer.output);
    assert_eq!(peer.connection.incomplete_since(), Some(later));
    peer.connection.hold_content(stream);
    peer.connection.discard_content(stream);
    peer.connection.settle(stream, &mut peer.output);
    assert_eq!(peer.connection.incomplete_since(), Some(later));

    // The content ends before the body.
    let (mut peer, stream) = upload();
    peer.connection.begin_response(stream, &head, &mut peer.output);
    peer.connection.hold_content(stream);
    peer.connection.discard_content(stream);
    peer.connection.settle(stream, &mut peer.output);
    assert_eq!(peer.connection.incomplete_since(), None);
    peer.connection.append_body(stream, b"body", true);
    peer.drain();
    assert_eq!(peer.connection.incomplete_since(), Some(later));
}

#[test]
fn body_follows_its_head_in_parts() {
    let mut peer = Peer::open();
    peer.send(&get(1, "/later"));
    let stream = peer.postponed[0];
    assert_eq!(peer.connection.resume(stream), Resumption::Ready);
    let fields: [(&str, &[u8]); 1] = [(":status", b"200")];
    let server_fields = ServerFields::new(&[], 0);
    let head = OwnHead { fields: &fields, server_fields: Some((&server_fields, 0)) };
    assert_eq!(peer.connection.begin_response(stream, &head, &mut peer.output), BodyFollows::Yes);
    assert_eq!(response(&peer.drain(), 1), (Some(200), Vec::new()));
    assert!(!peer.connection.has_pending_bytes());

    assert_eq!(peer.connection.append_body(stream, b"first", false), Some(5));
    let frames = peer.drain();
    assert!(
        matches!(&frames[..], [Frame::Data(1, Content(bytes), false)] if bytes == b"first"),
        "{frames:?}"
    );
    // The end does not need a window.
    peer.connection.window = Window::new(0);
    peer.connection.append_body(stream, b"", true);
    let frames = peer.drain();
    assert!(matches!(&frames[..], [Frame::Data(1, Content(bytes), true)] if bytes.is_empty()), "{frames:?}");
    assert_eq!(peer.connection.append_body(stream, b"more", false), None);
}
