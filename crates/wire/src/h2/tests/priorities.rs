//! Tests in which order responses are sent (RFC 9218 §10).

use cannery_testkit::http2::{
    INITIAL_WINDOW_SIZE, PROTOCOL_ERROR, priority_update, reset, settings, window_update,
};

use super::peer::{Frame, Peer, last_headers, request};

/// Creates a connection with the largest windows, whose bodies wait until [`order`] is called.
fn wide() -> Peer {
    let mut peer = Peer::open();
    peer.send(&[settings(&[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)]), window_update(0, 1_000_000_000)].concat());
    peer.fills = false;
    peer
}

fn get(stream: u32, path: &str, priority: &str) -> Vec<u8> {
    let more = [("priority", priority)];
    last_headers(stream, &request(path, if priority.is_empty() { &[] } else { &more }))
}

/// Sends all bodies. Returns the streams of the DATA frames, in order.
fn order(peer: &mut Peer) -> Vec<u32> {
    peer.fills = true;
    let of = |frame: &Frame| if let Frame::Data(stream, ..) = frame { Some(*stream) } else { None };
    let order = peer.drain().iter().filter_map(of).collect();
    peer.fills = false;
    order
}

/// Three frames of content.
const THREE: &str = "/40000";

#[test]
fn more_urgent_responses_go_first() {
    let mut peer = wide();
    for (stream, priority) in [(1, "u=5"), (3, ""), (5, "u=0"), (7, "u=5"), (9, "u=3")] {
        peer.send(&get(stream, THREE, priority));
    }
    assert_eq!(order(&mut peer), [5, 5, 5, 3, 3, 3, 9, 9, 9, 1, 1, 1, 7, 7, 7]);
}

#[test]
fn incremental_responses_follow_whole_ones_in_turns() {
    let mut peer = wide();
    for (stream, priority) in [(1, "i"), (3, ""), (5, "i"), (7, "i"), (9, "u=4, i")] {
        peer.send(&get(stream, THREE, priority));
    }
    assert_eq!(order(&mut peer), [3, 3, 3, 1, 5, 7, 1, 5, 7, 1, 5, 7, 9, 9, 9]);
}

#[test]
fn round_robin_resumes_where_it_stopped() {
    let mut peer = wide();
    peer.send(&settings(&[(INITIAL_WINDOW_SIZE, 16_384)]));
    for stream in [1, 3, 5] {
        peer.send(&get(stream, THREE, "i"));
    }
    assert_eq!(order(&mut peer), [1, 3, 5]);
    peer.send(&[window_update(3, 16_384), get(7, THREE, "i")].concat());
    assert_eq!(order(&mut peer), [7, 3]);
    peer.send(&[1, 3, 5].map(|stream| window_update(stream, 100_000)).concat());
    assert_eq!(order(&mut peer), [5, 1, 3, 5, 1]);
}

#[test]
fn closed_window_blocks_only_its_stream() {
    let mut peer = wide();
    peer.send(&settings(&[(INITIAL_WINDOW_SIZE, 10)]));
    peer.send(&[get(1, THREE, "u=0"), get(3, THREE, "u=7")].concat());
    assert_eq!(order(&mut peer), [1, 3]);
    peer.send(&window_update(3, 100_000));
    assert_eq!(order(&mut peer), [3, 3, 3]);
}

#[test]
fn priorities_change_while_streams_wait() {
    let mut peer = wide();
    for stream in [1, 3, 5] {
        peer.send(&get(stream, THREE, ""));
    }
    peer.send(&[priority_update(5, "u=1"), priority_update(1, "u=6")].concat());
    assert_eq!(order(&mut peer), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
    assert_eq!(
        peer.send(&[priority_update(5, "u=1"), reset(3)].concat()),
        [],
        "a closed stream has no priority"
    );
}

#[test]
fn early_priority_overrides_the_field() {
    let mut peer = wide();
    peer.send(&[priority_update(3, "u=0"), priority_update(5, "u=0, i"), priority_update(3, "u=1")].concat());
    for stream in [1, 3, 5] {
        peer.send(&get(stream, THREE, "u=2"));
    }
    assert_eq!(order(&mut peer), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
    assert_eq!(peer.connection.early_priorities(), 0);
}

#[test]
fn small_response_waits_only_for_equal_urgency() {
    let mut peer = wide();
    peer.send(&get(1, THREE, "u=2"));
    let small = |peer: &mut Peer, stream, priority| peer.send(&get(stream, "/13", priority)).len();
    assert_eq!(small(&mut peer, 3, "u=1"), 2, "head and body");
    assert_eq!(small(&mut peer, 5, "u=2"), 1, "the head alone");
    assert_eq!(small(&mut peer, 7, ""), 1);
    assert_eq!(order(&mut peer), [1, 1, 1, 5, 7]);
    assert_eq!(small(&mut peer, 9, ""), 2);
}

#[test]
fn priority_update_of_invalid_streams() {
    for stream in [0, 2] {
        assert_eq!(
            Peer::open().send(&priority_update(stream, "u=1")),
            [Frame::GoAway(0, PROTOCOL_ERROR)],
            "RFC 9218 §7.1"
        );
    }
}
