//! Tests that requests do not allocate if we answer at once. This includes streams and heads.

use cannery_testkit::http2::window_update;

use super::peer::{Peer, get, last_headers, request};
use crate::h2::Connection;

const BROWSER: [(&str, &str); 6] = [
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("if-none-match", "\"0123456789abcdef\""),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
    ("cookie", "session=0123456789"),
    ("priority", "u=1, i"),
];

#[test]
fn idle_connection_is_small() {
    assert!(size_of::<Connection>() <= 512, "{} bytes", size_of::<Connection>());
    let mut peer = Peer::open();
    let frames = peer.send(&[get(1, "/100000"), get(3, "/40000"), window_update(0, 100_000)].concat());
    assert!(frames.len() > 5 && peer.connection.has_bodies());
    peer.send(&window_update(1, 100_000));
    assert_eq!(peer.connection.streams.memory(), 0, "closed streams free their memory");
}

#[test]
fn small_response_allocates_nothing() {
    let mut peer = Peer::open();
    let input = |number: u32| -> Vec<u8> {
        let ids = (0..32).map(|offset| 2 * (32 * number + offset) + 1);
        ids.flat_map(|id| last_headers(id, &request("/13", &BROWSER))).collect()
    };
    // The worker's buffers for heads only grow once.
    peer.answer_all(&input(0));
    for number in 1..100 {
        let input = input(number);
        let counted = allocation_counter::measure(|| assert_eq!(peer.answer_all(&input), 32));
        assert_eq!(counted.count_total, 0, "round {number}");
        peer.send(&window_update(0, 32 * 13));
    }
}
