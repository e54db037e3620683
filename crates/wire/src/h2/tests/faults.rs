//! Protocol violations (RFC 9113), and whether each is a stream error or a connection error.

use super::peer::{
    Frame, Peer, block, data, frame, get, headers, post, request, reset, settings, window_update,
};
use crate::h2::frame::{flag, kind};
use crate::h2::{ErrorCode, PREFACE};

/// The error that a violation causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Stream(u32, ErrorCode),
    /// Connection error, with the last stream.
    Connection(u32, ErrorCode),
}

/// Sends `input` on an open connection, and checks the last frame that it writes.
#[track_caller]
fn check(what: &str, input: &[Vec<u8>], ends: Ends) {
    let mut peer = Peer::open();
    let frames = peer.send(&input.concat());
    let expected = match ends {
        Ends::Stream(stream, code) => Frame::Reset(stream, code.number()),
        Ends::Connection(last, code) => Frame::GoAway(last, code.number()),
    };
    assert_eq!(frames.last(), Some(&expected), "{what}: {frames:?}");
    let after = peer.send(&frame(kind::PING, 0, 0, b"12345678"));
    let goes_on = after == [Frame::PingAck(b"12345678".to_vec())];
    assert_eq!(goes_on, matches!(ends, Ends::Stream(..)), "{what}: {after:?}");
    assert_eq!(peer.connection.has_ended(), !goes_on, "{what}");
}

fn ping() -> Vec<u8> {
    frame(kind::PING, 0, 0, b"abcdefgh")
}

fn headers_with(flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flags, stream, payload)
}

const END: u8 = flag::END_HEADERS | flag::END_STREAM;

#[test]
fn invalid_preface_closes_the_connection() {
    for preface in [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX".as_slice(), b"GET / HTTP/1.1\r\n", b"Q"] {
        let mut peer = Peer::silent();
        assert_eq!(peer.send(preface), [Frame::GoAway(0, 1)], "RFC 9113 §3.4");
        assert!(peer.connection.has_ended());
    }
    for first in [ping(), get(1, "/13"), frame(kind::SETTINGS, flag::ACK, 0, b"")] {
        let mut peer = Peer::silent();
        assert_eq!(peer.send(&[PREFACE.as_slice(), &first].concat()), [Frame::GoAway(0, 1)], "{first:?}");
    }
}

#[test]
fn invalid_frame_sizes() {
    use Ends::{Connection, Stream};
    let size = ErrorCode::FrameSize;
    check("too large", &[data(1, &[0; 16_385], true)], Connection(0, size));
    // The head of the frame is enough.
    check("a large head", &[data(1, &[0; 16_385], true)[..9].to_vec()], Connection(0, size));
    check("PING", &[frame(kind::PING, 0, 0, b"1234567")], Connection(0, size));
    check("RST_STREAM", &[get(1, "/0"), frame(kind::RST_STREAM, 0, 1, b"123")], Connection(1, size));
    check("SETTINGS", &[frame(kind::SETTINGS, 0, 0, b"12345")], Connection(0, size));
    check("SETTINGS ack", &[frame(kind::SETTINGS, flag::ACK, 0, b"123456")], Connection(0, size));
    check("WINDOW_UPDATE", &[frame(kind::WINDOW_UPDATE, 0, 0, b"123")], Connection(0, size));
    check("GOAWAY", &[frame(kind::GOAWAY, 0, 0, b"1234567")], Connection(0, size));
    check("PRIORITY", &[get(1, "/0"), frame(kind::PRIORITY, 0, 1, b"1234")], Stream(1, size));
    check("PRIORITY, idle", &[frame(kind::PRIORITY, 0, 1, b"1234")], Connection(0, size));
    check("PRIORITY_UPDATE", &[frame(kind::PRIORITY_UPDATE, 0, 0, b"123")], Connection(0, size));
    check("HEADERS, dependency", &[headers_with(END | flag::PRIORITY, 1, b"1234")], Connection(0, size));
    check(
        "DATA, padding",
        &[post(1, "/0", &[]), frame(kind::DATA, flag::PADDED, 1, b"")],
        Connection(1, size),
    );
}

#[test]
fn misplaced_frames() {
    use Ends::Connection;
    let wrong = ErrorCode::Protocol;
    for kind in [kind::DATA, kind::HEADERS, kind::PRIORITY, kind::RST_STREAM] {
        let payload: &[u8] = if kind == kind::RST_STREAM { b"1234" } else { b"12345" };
        check("on no stream", &[frame(kind, flag::END_HEADERS, 0, payload)], Connection(0, wrong));
    }
    for kind in [kind::SETTINGS, kind::PING, kind::GOAWAY, kind::PRIORITY_UPDATE] {
        check("on a stream", &[get(1, "/0"), frame(kind, 0, 1, b"12345678")], Connection(1, wrong));
    }
    for idle in [data(1, b"1", true), reset(1), window_update(1, 1)] {
        check("on an idle stream", &[idle], Connection(0, wrong));
    }
    // RFC 9113 §5.1.1: server-initiated streams stay idle, and idle streams must not be reset.
    let circular = frame(kind::PRIORITY, 0, 2, &[0, 0, 0, 2, 5]);
    for idle in [data(2, b"1", true), reset(2), window_update(2, 1), circular] {
        check("on a server-initiated stream", &[get(5, "/0"), idle], Connection(5, wrong));
    }
    check(
        "CONTINUATION alone",
        &[frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"")],
        Connection(0, wrong),
    );
    let whole = [get(1, "/0"), frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"")];
    check("CONTINUATION after a block", &whole, Connection(1, wrong));
    check("PUSH_PROMISE", &[frame(kind::PUSH_PROMISE, 0, 1, b"12345678")], Connection(0, wrong));
    let begun = headers_with(flag::END_STREAM, 1, &block(&request("/0", &[])));
    let others = [ping(), get(3, "/0"), data(1, b"1", true), frame(0x77, 0, 0, b""), settings(&[])];
    for other in others.into_iter().chain([frame(kind::CONTINUATION, flag::END_HEADERS, 3, b"")]) {
        check("within a block", &[begun.clone(), other], Connection(1, wrong));
    }
}

#[test]
fn padding_longer_than_its_frame() {
    let wrong = ErrorCode::Protocol;
    let padded = [&[200], block(&request("/0", &[])).as_slice()].concat();
    check("HEADERS", &[headers_with(END | flag::PADDED, 1, &padded)], Ends::Connection(0, wrong));
    let padded = frame(kind::DATA, flag::PADDED, 1, &[5, 0, 0, 0, 0]);
    check("DATA", &[post(1, "/0", &[]), padded], Ends::Connection(1, wrong));
}

#[test]
fn stream_ids_increase_and_are_odd() {
    check("even", &[get(2, "/0")], Ends::Connection(0, ErrorCode::Protocol));
    // RFC 9113 §5.1.1: an ID that was skipped is unexpected.
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
    // Half-closed (remote): the response waits for its window.
    check("DATA", &[get(1, "/100000"), data(1, b"1", true)], Stream(1, closed));
    check("HEADERS", &[get(1, "/100000"), get(1, "/0")], Stream(1, closed));
    // Closed: the response was written.
    check("DATA", &[get(1, "/13"), data(1, b"1", true)], Stream(1, closed));
    check("HEADERS", &[get(1, "/13"), get(1, "/0")], Connection(1, closed));
    check("DATA after a reset", &[get(1, "/100000"), reset(1), data(1, b"1", true)], Stream(1, closed));
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
    let widened = [get(1, "/100000"), window_update(1, 100_000), settings(&[(4, most)])];
    check("by SETTINGS", &widened, Connection(1, flow));
    let there_and_back = [get(1, "/100000"), window_update(1, 100_000), settings(&[(4, most), (4, 5)])];
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
    check("ENABLE_PUSH", &[settings(&[(2, 2)])], Connection(0, ErrorCode::Protocol));
    check("INITIAL_WINDOW_SIZE", &[settings(&[(4, 1 << 31)])], Connection(0, ErrorCode::FlowControl));
    check("MAX_FRAME_SIZE", &[settings(&[(5, 16_383)])], Connection(0, ErrorCode::Protocol));
    check("MAX_FRAME_SIZE", &[settings(&[(5, 1 << 24)])], Connection(0, ErrorCode::Protocol));
}

#[test]
fn self_dependent_streams() {
    let wrong = ErrorCode::Protocol;
    let dependency = [&[0, 0, 0, 1, 5], block(&request("/0", &[])).as_slice()].concat();
    let circular = headers_with(END | flag::PRIORITY, 1, &dependency);
    check("HEADERS", &[circular], Ends::Stream(1, wrong));
    check("PRIORITY", &[get(1, "/0"), frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 5])], Ends::Stream(1, wrong));
    let other = [&[0x80, 0, 0, 9, 5], block(&request("/0", &[])).as_slice()].concat();
    let frames = Peer::open().send(&headers_with(END | flag::PRIORITY, 1, &other));
    assert_eq!(frames, [Frame::Headers(1, 200, true)], "RFC 9113 §5.3.2: other dependencies are ignored");
}

#[test]
fn invalid_header_blocks() {
    let code = ErrorCode::Compression;
    for block in
        [b"\x80".as_slice(), b"\xff\xff\xff\xff\xff\xff", b"\x82\x3f\xff\x7f", b"\x00\x05ab", b"\xbe"]
    {
        check("a block", &[headers_with(END, 1, block)], Ends::Connection(1, code));
        let trailers = [post(1, "/0", &[]), headers_with(END, 1, block)];
        check("trailers", &trailers, Ends::Connection(1, code));
    }
}

#[test]
fn content_length_mismatch() {
    use Ends::Stream;
    let wrong = ErrorCode::Protocol;
    let five = || post(1, "/0", &[("content-length", "5")]);
    check("too short", &[five(), data(1, b"1234", true)], Stream(1, wrong));
    check("too long", &[five(), data(1, b"123", false), data(1, b"456", false)], Stream(1, wrong));
    check("ended by trailers", &[five(), headers(1, &[("a", "b")])], Stream(1, wrong));
    check("ended with its head", &[headers(1, &request("/0", &[("content-length", "5")]))], Stream(1, wrong));
    // Padding is not content.
    let padded = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x02hello\0\0");
    assert_eq!(Peer::open().send(&[five(), padded].concat()), [Frame::Headers(1, 200, true)]);
    let empty = headers(1, &request("/0", &[("content-length", "0")]));
    assert_eq!(Peer::open().send(&empty), [Frame::Headers(1, 200, true)]);
}

#[test]
fn invalid_trailers() {
    use Ends::Stream;
    let wrong = ErrorCode::Protocol;
    let open = headers_with(flag::END_HEADERS, 1, &block(&[("a", "b")]));
    check("without an end", &[post(1, "/0", &[]), open], Stream(1, wrong));
    for field in
        [(":path", "/"), ("Upper", "case"), ("connection", "close"), ("a", "b\n"), (":status", "200")]
    {
        let trailers = headers(1, &[field]);
        check("with a field", &[post(1, "/0", &[]), trailers], Stream(1, wrong));
    }
}

#[test]
fn too_many_streams() {
    let mut peer = Peer::open();
    let requests: Vec<_> = (0..128).flat_map(|number| get(2 * number + 1, "/100000")).collect();
    peer.send(&requests);
    // RFC 9113 §5.1.2.
    assert_eq!(peer.send(&get(257, "/0")), [Frame::Reset(257, 7)]);
    peer.send(&reset(1));
    assert_eq!(peer.send(&get(259, "/0")), [Frame::Headers(259, 200, true)]);
}

#[test]
fn malformed_request_is_forgotten_with_its_content() {
    let mut peer = Peer::open();
    let mut fields = request("/0", &[("connection", "close")]);
    fields[0].1 = "POST";
    let malformed = headers_with(flag::END_HEADERS, 1, &block(&fields));
    assert_eq!(peer.send(&malformed), [Frame::Reset(1, 1)]);
    assert_eq!(peer.send(&[data(1, b"1", false), data(1, b"", true)].concat()), []);
    assert_eq!(peer.send(&get(3, "/0")), [Frame::Headers(3, 200, true)]);
}
