//! Tests that each violation (RFC 9113) leads to the right error, either a stream error or a connection
//! error.

use cannery_testkit::http2::{
    ACK, CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE, PADDED, PING, PREFACE, PRIORITY, PRIORITY_FLAG, PRIORITY_UPDATE, PROTOCOL_ERROR,
    PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, data, field_block, frame, reset,
    settings, window_update,
};

use super::peer::{Frame, Peer, get, last_headers, post, request};
use crate::h2::ErrorCode;

/// The error that a violation leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Stream(u32, ErrorCode),
    /// A connection error. It has the last stream.
    Connection(u32, ErrorCode),
}

/// Sends `input` on an open connection, and checks the last frame that the connection writes.
#[track_caller]
fn check(what: &str, input: &[Vec<u8>], ends: Ends) {
    let mut peer = Peer::open();
    let frames = peer.send(&input.concat());
    let expected = match ends {
        Ends::Stream(stream, code) => Frame::Reset(stream, code.number()),
        Ends::Connection(last, code) => Frame::GoAway(last, code.number()),
    };
    assert_eq!(frames.last(), Some(&expected), "{what}: {frames:?}");
    let after = peer.send(&frame(PING, 0, 0, b"12345678"));
    let goes_on = after == [Frame::PingAck(b"12345678".to_vec())];
    assert_eq!(goes_on, matches!(ends, Ends::Stream(..)), "{what}: {after:?}");
    assert_eq!(peer.connection.has_ended(), !goes_on, "{what}");
}

fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"abcdefgh")
}

/// Flags of a complete request without content.
const END: u8 = END_HEADERS | END_STREAM;

#[test]
fn invalid_preface_closes_the_connection() {
    for preface in [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX".as_slice(), b"GET / HTTP/1.1\r\n", b"Q"] {
        let mut peer = Peer::silent();
        assert_eq!(peer.send(preface), [Frame::GoAway(0, PROTOCOL_ERROR)], "RFC 9113 §3.4");
        assert!(peer.connection.has_ended());
    }
    for first in [ping(), get(1, "/13"), frame(SETTINGS, ACK, 0, b"")] {
        let mut peer = Peer::silent();
        assert_eq!(peer.send(&[PREFACE, &first].concat()), [Frame::GoAway(0, PROTOCOL_ERROR)], "{first:?}");
    }
}

#[test]
fn invalid_frame_sizes() {
    use Ends::{Connection, Stream};
    let size = ErrorCode::FrameSize;
    check("too large", &[data(1, END_STREAM, &[0; 16_385])], Connection(0, size));
    // We don't need more than the head of the frame.
    check("a large head", &[data(1, END_STREAM, &[0; 16_385])[..9].to_vec()], Connection(0, size));
    check("PING", &[frame(PING, 0, 0, b"1234567")], Connection(0, size));
    check("RST_STREAM", &[get(1, "/0"), frame(RST_STREAM, 0, 1, b"123")], Connection(1, size));
    check("SETTINGS", &[frame(SETTINGS, 0, 0, b"12345")], Connection(0, size));
    check("SETTINGS ack", &[frame(SETTINGS, ACK, 0, b"123456")], Connection(0, size));
    check("WINDOW_UPDATE", &[frame(WINDOW_UPDATE, 0, 0, b"123")], Connection(0, size));
    check("GOAWAY", &[frame(GOAWAY, 0, 0, b"1234567")], Connection(0, size));
    check("PRIORITY", &[get(1, "/0"), frame(PRIORITY, 0, 1, b"1234")], Stream(1, size));
    check("PRIORITY, idle", &[frame(PRIORITY, 0, 1, b"1234")], Connection(0, size));
    check("PRIORITY_UPDATE", &[frame(PRIORITY_UPDATE, 0, 0, b"123")], Connection(0, size));
    check("HEADERS, dependency", &[frame(HEADERS, END | PRIORITY_FLAG, 1, b"1234")], Connection(0, size));
    check("DATA, padding", &[post(1, "/0", &[]), frame(DATA, PADDED, 1, b"")], Connection(1, size));
}

#[test]
fn misplaced_frames() {
    use Ends::Connection;
    let wrong = ErrorCode::Protocol;
    for kind in [DATA, HEADERS, PRIORITY, RST_STREAM] {
        let payload: &[u8] = if kind == RST_STREAM { b"1234" } else { b"12345" };
        check("on no stream", &[frame(kind, END_HEADERS, 0, payload)], Connection(0, wrong));
    }
    for kind in [SETTINGS, PING, GOAWAY, PRIORITY_UPDATE] {
        check("on a stream", &[get(1, "/0"), frame(kind, 0, 1, b"12345678")], Connection(1, wrong));
    }
    for idle in [data(1, END_STREAM, b"1"), reset(1), window_update(1, 1)] {
        check("on an idle stream", &[idle], Connection(0, wrong));
    }
    // The server does not open streams, so they stay idle. Idle streams MUST NOT be reset (RFC 9113 §5.1.1).
    let circular = frame(PRIORITY, 0, 2, &[0, 0, 0, 2, 5]);
    for idle in [data(2, END_STREAM, b"1"), reset(2), window_update(2, 1), circular] {
        check("on a server-initiated stream", &[get(5, "/0"), idle], Connection(5, wrong));
    }

    check("CONTINUATION alone", &[frame(CONTINUATION, END_HEADERS, 1, b"")], Connection(0, wrong));
    let whole = [get(1, "/0"), frame(CONTINUATION, END_HEADERS, 1, b"")];
    check("CONTINUATION after a block", &whole, Connection(1, wrong));
    check("PUSH_PROMISE", &[frame(PUSH_PROMISE, 0, 1, b"12345678")], Connection(0, wrong));

    let begun = frame(HEADERS, END_STREAM, 1, &field_block(&request("/0", &[])));
    let others = [ping(), get(3, "/0"), data(1, END_STREAM, b"1"), frame(0x77, 0, 0, b""), settings(&[])];
    for other in others.into_iter().chain([frame(CONTINUATION, END_HEADERS, 3, b"")]) {
        check("within a block", &[begun.clone(), other], Connection(1, wrong));
    }
}

#[test]
fn padding_longer_than_its_frame() {
    let wrong = ErrorCode::Protocol;
    let padded = [&[200], field_block(&request("/0", &[])).as_slice()].concat();
    check("HEADERS", &[frame(HEADERS, END | PADDED, 1, &padded)], Ends::Connection(0, wrong));
    let padded = frame(DATA, PADDED, 1, &[5, 0, 0, 0, 0]);
    check("DATA", &[post(1, "/0", &[]), padded], Ends::Connection(1, wrong));
}

#[test]
fn stream_ids_increase_and_are_odd() {
    check("even", &[get(2, "/0")], Ends::Connection(0, ErrorCode::Protocol));
    // This ID was skipped, so it is unexpected (RFC 9113 §5.1.1).
    check("skipped", &[get(5, "/0"), get(3, "/0")], Ends::Connection(5, ErrorCode::Protocol));
    check("used", &[get(3, "/0"), get(5, "/0"), get(3, "/0")], Ends::Connection(5, ErrorCode::StreamClosed));
    let long_ago: Vec<_> = (0..100).map(|number| get(2 * number + 1, "/0")).chain([get(1, "/0")]).collect();
    check("used long ago", &long_ago, Ends::Connection(199, ErrorCode::StreamClosed));
    let frames = Peer::open().send(&[get(1, "/0"), get(0x7fff_ffff, "/0")].concat());
    assert_eq!(frames.last(), Some(&Frame::Headers(0x7fff_ffff, 200, true)), "the largest ID");
}

#[test]
fn frames_on_a_closed_stream() {
    use Ends::{Connection, Stream};
    let closed = ErrorCode::StreamClosed;
    // Half-closed (remote), because the response waits for its window.
    check("DATA", &[get(1, "/100000"), data(1, END_STREAM, b"1")], Stream(1, closed));
    check("HEADERS", &[get(1, "/100000"), get(1, "/0")], Stream(1, closed));
    // Closed, because the response was written.
    check("DATA", &[get(1, "/13"), data(1, END_STREAM, b"1")], Stream(1, closed));
    check("HEADERS", &[get(1, "/13"), get(1, "/0")], Connection(1, closed));
    check("DATA after a reset", &[get(1, "/100000"), reset(1), data(1, END_STREAM, b"1")], Stream(1, closed));
    check("HEADERS after a reset", &[get(1, "/100000"), reset(1), get(1, "/0")], Connection(1, closed));
}

#[test]
fn window_overflows() {
    use Ends::{Connection, Stream};
    let flow = ErrorCode::FlowControl;
    let most = 0x7fff_ffff;

    check("of the connection", &[window_update(0, most)], Connection(0, flow));
    check("of a stream", &[get(1, "/100000"), window_update(1, most)], Stream(1, flow));
    check("of a stream without body", &[post(1, "/0", &[]), window_update(1, most)], Stream(1, flow));
    let widened = [get(1, "/100000"), window_update(1, 100_000), settings(&[(INITIAL_WINDOW_SIZE, most)])];
    check("by SETTINGS", &widened, Connection(1, flow));

    let there_and_back = [
        get(1, "/100000"),
        window_update(1, 100_000),
        settings(&[(INITIAL_WINDOW_SIZE, most), (INITIAL_WINDOW_SIZE, 5)]),
    ];
    check("by SETTINGS temporarily", &there_and_back, Connection(1, flow));

    check("zero increment", &[window_update(0, 0)], Connection(0, ErrorCode::Protocol));
    check(
        "zero increment on a stream",
        &[get(1, "/100000"), window_update(1, 0)],
        Stream(1, ErrorCode::Protocol),
    );
}

#[test]
fn invalid_settings() {
    use Ends::Connection;
    check("ENABLE_PUSH", &[settings(&[(ENABLE_PUSH, 2)])], Connection(0, ErrorCode::Protocol));
    check(
        "INITIAL_WINDOW_SIZE",
        &[settings(&[(INITIAL_WINDOW_SIZE, 1 << 31)])],
        Connection(0, ErrorCode::FlowControl),
    );
    check("MAX_FRAME_SIZE", &[settings(&[(MAX_FRAME_SIZE, 16_383)])], Connection(0, ErrorCode::Protocol));
    check("MAX_FRAME_SIZE", &[settings(&[(MAX_FRAME_SIZE, 1 << 24)])], Connection(0, ErrorCode::Protocol));
}

#[test]
fn self_dependent_streams() {
    let wrong = ErrorCode::Protocol;
    let dependency = [&[0, 0, 0, 1, 5], field_block(&request("/0", &[])).as_slice()].concat();
    let circular = frame(HEADERS, END | PRIORITY_FLAG, 1, &dependency);
    check("HEADERS", &[circular], Ends::Stream(1, wrong));
    check("PRIORITY", &[get(1, "/0"), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 5])], Ends::Stream(1, wrong));
    let other = [&[0x80, 0, 0, 9, 5], field_block(&request("/0", &[])).as_slice()].concat();
    let frames = Peer::open().send(&frame(HEADERS, END | PRIORITY_FLAG, 1, &other));
    assert_eq!(frames, [Frame::Headers(1, 200, true)], "RFC 9113 §5.3.2: other dependencies are ignored");
}

#[test]
fn invalid_header_blocks() {
    let code = ErrorCode::Compression;
    for block in
        [b"\x80".as_slice(), b"\xff\xff\xff\xff\xff\xff", b"\x82\x3f\xff\x7f", b"\x00\x05ab", b"\xbe"]
    {
        check("a block", &[frame(HEADERS, END, 1, block)], Ends::Connection(1, code));
        let trailers = [post(1, "/0", &[]), frame(HEADERS, END, 1, block)];
        check("trailers", &trailers, Ends::Connection(1, code));
    }
}

#[test]
fn content_length_mismatch() {
    use Ends::Stream;
    let wrong = ErrorCode::Protocol;
    let five = || post(1, "/0", &[("content-length", "5")]);
    check("too short", &[five(), data(1, END_STREAM, b"1234")], Stream(1, wrong));
    check("too long", &[five(), data(1, 0, b"123"), data(1, 0, b"456")], Stream(1, wrong));
    check("ended by trailers", &[five(), last_headers(1, &[("a", "b")])], Stream(1, wrong));
    check(
        "ended with its head",
        &[last_headers(1, &request("/0", &[("content-length", "5")]))],
        Stream(1, wrong),
    );
    // Padding is not content.
    let padded = frame(DATA, PADDED | END_STREAM, 1, b"\x02hello\0\0");
    assert_eq!(Peer::open().send(&[five(), padded].concat()), [Frame::Headers(1, 200, true)]);
    let empty = last_headers(1, &request("/0", &[("content-length", "0")]));
    assert_eq!(Peer::open().send(&empty), [Frame::Headers(1, 200, true)]);
}

#[test]
fn invalid_trailers() {
    use Ends::Stream;
    let wrong = ErrorCode::Protocol;
    let open = frame(HEADERS, END_HEADERS, 1, &field_block(&[("a", "b")]));
    check("without an end", &[post(1, "/0", &[]), open], Stream(1, wrong));
    for field in
        [(":path", "/"), ("Upper", "case"), ("connection", "close"), ("a", "b\n"), (":status", "200")]
    {
        let trailers = last_headers(1, &[field]);
        check("with a field", &[post(1, "/0", &[]), trailers], Stream(1, wrong));
    }
}

#[test]
fn too_many_streams() {
    let mut peer = Peer::open();
    let requests: Vec<_> = (0..128).flat_map(|number| get(2 * number + 1, "/100000")).collect();
    peer.send(&requests);
    // RFC 9113 §5.1.2.
    assert_eq!(peer.send(&get(257, "/0")), [Frame::Reset(257, REFUSED_STREAM)]);
    peer.send(&reset(1));
    assert_eq!(peer.send(&get(259, "/0")), [Frame::Headers(259, 200, true)]);
}

#[test]
fn malformed_request_is_forgotten_with_its_content() {
    let mut peer = Peer::open();
    let mut fields = request("/0", &[("connection", "close")]);
    fields[0].1 = "POST";
    let malformed = frame(HEADERS, END_HEADERS, 1, &field_block(&fields));
    assert_eq!(peer.send(&malformed), [Frame::Reset(1, PROTOCOL_ERROR)]);
    assert_eq!(peer.send(&[data(1, 0, b"1"), data(1, END_STREAM, b"")].concat()), []);
    assert_eq!(peer.send(&get(3, "/0")), [Frame::Headers(3, 200, true)]);
}
