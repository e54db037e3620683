//! Tests with well-behaved peers.

use cannery_testkit::http2::{
    ACK, END_STREAM, INITIAL_WINDOW_SIZE, NO_ERROR, PING, PREFACE, PROTOCOL_ERROR, STREAM_CLOSED, data,
    frame, reset, settings, window_update,
};

use super::peer::{Content, Frame, Peer, get, last_headers, post, request};
use crate::h2::Awaits;
use crate::limits::STREAMS_MAX;

#[test]
fn small_response_creates_no_stream() {
    let mut peer = Peer::open();
    let frames = peer.send(&[get(1, "/13"), get(3, "/0"), get(5, "/missing")].concat());
    let body = Content(peer.body(13).to_vec());
    assert_eq!(frames[..2], [Frame::Headers(1, 200, false), Frame::Data(1, body, true)]);
    assert_eq!(frames[2], Frame::Headers(3, 200, true), "an empty body needs no DATA");
    assert!(matches!(&frames[3..], [Frame::Headers(5, 404, false), Frame::Data(5, _, true)]));
    assert_eq!(peer.connection.streams.memory(), 0);
    assert_eq!(peer.connection.awaits(), Awaits::Request);
}

#[test]
fn result_does_not_depend_on_the_split() {
    let input =
        [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, 100_000)]), &get(1, "/13"), &post(3, "/40000", &[])]
            .concat();
    let input = [input, data(3, END_STREAM, b"content"), get(5, "/missing"), window_update(0, 1000)].concat();
    let whole = Peer::silent().send(&input);
    assert_eq!(whole.len(), 9, "{whole:?}");
    for piece in 1..input.len() {
        let mut peer = Peer::silent();
        let mut frames: Vec<_> = input.chunks(piece).flat_map(|bytes| peer.send(bytes)).collect();
        let mut expected = whole.clone();
        // A body can be sent before the responses to later requests.
        let stream_of = |frame: &Frame| match frame {
            Frame::Headers(stream, ..) | Frame::Data(stream, ..) => *stream,
            _ => 0,
        };
        frames.sort_by_key(stream_of);
        expected.sort_by_key(stream_of);
        assert_eq!(frames, expected, "in pieces of {piece}");
    }
}

#[test]
fn large_body_waits_for_both_windows() {
    let mut peer = Peer::open();
    let frames = peer.send(&get(1, "/200000"));
    let lengths = |frames: &[Frame]| -> Vec<(u32, usize, bool)> {
        let of = |frame: &Frame| match frame {
            Frame::Data(stream, bytes, ended) => Some((*stream, bytes.0.len(), *ended)),
            _ => None,
        };
        frames.iter().filter_map(of).collect()
    };

    assert_eq!(
        lengths(&frames),
        [(1, 16_384, false), (1, 16_384, false), (1, 16_384, false), (1, 16_383, false)]
    );
    assert_eq!(peer.connection.awaits(), Awaits::Window);
    assert!(peer.connection.has_bodies());
    assert_eq!(peer.send(&window_update(1, 1_000_000)), [], "the connection's window is closed");
    assert_eq!(lengths(&peer.send(&window_update(0, 1))), [(1, 1, false)]);
    assert_eq!(lengths(&peer.send(&window_update(0, 16_385))), [(1, 16_384, false), (1, 1, false)]);

    let rest = peer.send(&window_update(0, 1_000_000));
    assert_eq!(lengths(&rest).iter().map(|(_, length, _)| length).sum::<usize>(), 200_000 - 65_535 - 16_386);
    assert_eq!(lengths(&rest).last().map(|(.., ended)| *ended), Some(true));
    assert!(!peer.connection.has_bodies());
    assert_eq!(peer.connection.awaits(), Awaits::Request);
    assert_eq!(peer.connection.streams.memory(), 0, "an idle connection keeps no memory");
}

#[test]
fn head_has_no_content() {
    let mut peer = Peer::open();
    for (number, path) in [(1, "/13"), (3, "/100000"), (5, "/text/5"), (7, "/missing")] {
        let mut fields = request(path, &[]);
        fields[0].1 = "HEAD";
        let frames = peer.send(&last_headers(number, &fields));
        assert!(matches!(frames[..], [Frame::Headers(_, _, true)]), "{path}: {frames:?}");
    }
}

#[test]
fn content_is_discarded_and_acknowledged() {
    let mut peer = Peer::open();
    let frames = peer.send(&post(1, "/0", &[("content-length", "40000")]));
    assert_eq!(frames, [Frame::Headers(1, 200, true)]);
    assert_eq!(peer.connection.awaits(), Awaits::Content);
    assert_eq!(peer.send(&data(1, 0, &[0; 16_384])), []);
    assert_eq!(peer.send(&data(1, 0, &[0; 16_384])), [Frame::WindowUpdate(0, 32_768)]);
    assert_eq!(peer.send(&data(1, END_STREAM, &[0; 7_232])), []);
    assert_eq!(peer.connection.awaits(), Awaits::Request);
}

#[test]
fn content_beyond_the_window_is_reset_after_the_response() {
    let mut peer = Peer::open();
    peer.send(&post(1, "/13", &[]));
    let content: Vec<_> =
        [16_384, 16_384, 16_384, 16_383].iter().flat_map(|n| data(1, 0, &vec![0; *n])).collect();
    let frames = peer.send(&content);
    assert_eq!(frames.last(), Some(&Frame::Reset(1, NO_ERROR)), "RFC 9113 §8.1");
    assert_eq!(peer.connection.awaits(), Awaits::Request);
    // Ignore frames that are already on their way, until the stream ends.
    let late = peer.send(&[data(1, 0, b"more"), data(1, END_STREAM, b"")].concat());
    assert_eq!(
        late,
        [Frame::WindowUpdate(0, 32_771)],
        "it counts against the connection's window nonetheless"
    );
    assert_eq!(peer.send(&data(1, END_STREAM, b"")), [Frame::Reset(1, STREAM_CLOSED)]);
}

#[test]
fn trailers_end_a_request() {
    let mut peer = Peer::open();
    peer.send(&[post(1, "/0", &[]), data(1, 0, b"content")].concat());
    assert_eq!(peer.send(&last_headers(1, &[("checksum", "abc")])), []);
    assert_eq!(peer.connection.awaits(), Awaits::Request);
}

#[test]
fn reset_drops_the_pending_body() {
    let mut peer = Peer::open();
    peer.fills = false;
    peer.send(&[get(1, "/100000"), get(3, "/100000")].concat());
    peer.send(&reset(1));
    peer.fills = true;
    let frames = peer.drain();
    assert!(frames.iter().all(|frame| matches!(frame, Frame::Data(3, ..))), "{frames:?}");
    peer.send(&reset(3));
    assert!(!peer.connection.has_bodies());
    // When a stream closes, there might still be RST_STREAM and WINDOW_UPDATE on their way.
    assert_eq!(peer.send(&[reset(1), window_update(3, 5)].concat()), []);
}

#[test]
fn pings_are_acknowledged_and_unknown_frames_ignored() {
    let mut peer = Peer::open();
    let ping = frame(PING, 0, 0, b"12345678");
    let unknown = frame(0x77, 0xff, 5, b"whatever");
    assert_eq!(peer.send(&[unknown, ping].concat()), [Frame::PingAck(b"12345678".to_vec())]);
    assert_eq!(peer.send(&frame(PING, ACK, 0, b"12345678")), []);
}

#[test]
fn graceful_shutdown_answers_earlier_requests() {
    let mut peer = Peer::open();
    peer.fills = false;
    peer.send(&get(1, "/100000"));
    peer.connection.go_away(&mut peer.output);
    let frames = peer.drain();
    assert_eq!(frames, [Frame::GoAway(0x7fff_ffff, NO_ERROR), Frame::Ping(b"cannery!".to_vec())]);
    // This request was sent before the GOAWAY arrived.
    assert_eq!(peer.send(&get(3, "/13"))[..1], [Frame::Headers(3, 200, false)]);
    assert_eq!(peer.send(&frame(PING, ACK, 0, b"cannery!")), [Frame::GoAway(3, NO_ERROR)]);
    assert_eq!(peer.send(&get(5, "/13")), [], "the peer had received the GOAWAY");
    assert!(!peer.connection.has_ended());
    peer.fills = true;
    peer.send(&[window_update(0, 100_000), window_update(1, 100_000)].concat());
    assert!(peer.connection.has_ended());
}

#[test]
fn frames_beyond_the_final_goaway_are_ignored() {
    // Requests can be on their way when a client receives the GOAWAY. The client will still send their content then (RFC 9113
    // §6.8).
    let mut peer = Peer::open();
    peer.fills = false;
    peer.send(&get(1, "/100000"));
    peer.connection.go_away(&mut peer.output);
    peer.drain();
    assert_eq!(peer.send(&frame(PING, ACK, 0, b"cannery!")), [Frame::GoAway(1, NO_ERROR)]);
    let late =
        [post(3, "/13", &[]), data(3, 0, b"content"), window_update(3, 5), last_headers(3, &[("a", "b")])];
    assert_eq!(peer.send(&late.concat()), []);
    assert_eq!(peer.send(&[post(5, "/13", &[]), data(5, END_STREAM, b"content"), reset(5)].concat()), []);
    // In a second GOAWAY, the last stream isn't higher, even after an error.
    assert_eq!(peer.send(&data(7, END_STREAM, b"on an idle stream")), [Frame::GoAway(1, PROTOCOL_ERROR)]);
}

#[test]
fn trailers_after_a_reset_are_ignored() {
    // If content fills its window exactly, the stream is reset after the response while the trailers are still on their way. We do
    // this on as many streams as possible.
    let mut peer = Peer::open();
    for number in 0..STREAMS_MAX {
        let id = 2 * number + 1;
        peer.send(&post(id, "/0", &[]));
    }
    for number in 0..STREAMS_MAX {
        let id = 2 * number + 1;
        let content = [16_384, 16_384, 16_384, 16_383].map(|bytes| data(id, 0, &vec![0; bytes])).concat();
        assert_eq!(peer.send(&content).last(), Some(&Frame::Reset(id, NO_ERROR)));
    }
    // It doesn't matter how many streams were opened since then.
    for number in 0..200 {
        peer.send(&get(2 * (STREAMS_MAX + number) + 1, "/13"));
    }
    for number in 0..STREAMS_MAX {
        assert_eq!(peer.send(&last_headers(2 * number + 1, &[("a", "b")])), [], "{number}");
    }
}
