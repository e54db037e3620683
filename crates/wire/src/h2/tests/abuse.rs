//! Tests that attacks run into limits, and that honest peers do not.

use cannery_testkit::http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADER_TABLE_SIZE, HEADERS,
    INITIAL_WINDOW_SIZE, NO_ERROR, PADDED, PING, PRIORITY, REFUSED_STREAM, SETTINGS, STREAM_CLOSED, data,
    field_block, frame, priority_update, reset, settings, window_update,
};

use super::peer::{Frame, Peer, get, in_frames, last_headers, post, request};
use crate::h2::Awaits;
use crate::limits::{
    BLOCK_BYTES_MAX, CONTINUATIONS_MAX, CREDIT_MAX, CREDIT_PER_SECOND, FIELD_LIST_BYTES_DECODED_MAX,
    PRIORITIES_REMEMBERED_MAX, RESET_STREAMS_REMEMBERED_MAX, RESETS_MAX, SETTINGS_COST, STREAMS_MAX,
};

/// Sends `next(0)`, `next(1)` and so on, until the connection closes with ENHANCE_YOUR_CALM. Returns the number of times it has
/// accepted.
fn count_accepted(peer: &mut Peer, next: impl Fn(u32) -> Vec<u8>) -> u32 {
    for number in 0..1_000_000 {
        let frames = peer.send(&next(number));
        if let Some(Frame::GoAway(_, code)) = frames.last() {
            assert_eq!(*code, ENHANCE_YOUR_CALM);
            assert!(peer.connection.has_ended());
            return number;
        }
    }
    panic!("the connection accepts a million");
}

/// Creates a connection that does not send bodies, as if the peer did not read.
fn blocked() -> Peer {
    let mut peer = Peer::open();
    peer.fills = false;
    peer
}

#[test]
fn rapid_resets_are_bounded() {
    // CVE-2023-44487.
    let times = count_accepted(&mut blocked(), |number| {
        [get(2 * number + 1, "/100000"), reset(2 * number + 1)].concat()
    });
    assert_eq!(times, RESETS_MAX);
}

#[test]
fn resets_caused_by_the_peer_are_bounded() {
    // CVE-2025-8671.
    let faults: [fn(u32) -> Vec<u8>; 4] = [
        |id| [get(id, "/100000"), window_update(id, 0)].concat(),
        |id| [get(id, "/100000"), data(id, END_STREAM, b"late")].concat(),
        |id| last_headers(id, &request("/100000", &[("connection", "close")])),
        |id| [post(id, "/100000", &[("content-length", "1")]), data(id, END_STREAM, b"12")].concat(),
    ];
    for fault in faults {
        assert_eq!(count_accepted(&mut blocked(), |number| fault(2 * number + 1)), RESETS_MAX);
    }
}

#[test]
fn refused_streams_are_bounded() {
    let mut peer = blocked();
    let times = count_accepted(&mut peer, |number| get(2 * number + 1, "/100000"));
    assert_eq!(times, STREAMS_MAX + RESETS_MAX);
}

#[test]
fn frames_without_a_request_are_bounded() {
    type Flood = fn(u32) -> Vec<u8>;
    let floods: [(&str, u32, Flood); 9] = [
        ("PING", 1, |_| frame(PING, 0, 0, b"12345678")),
        ("PING ack", 1, |_| frame(PING, ACK, 0, b"12345678")),
        ("PRIORITY", 1, |number| frame(PRIORITY, 0, 2 * number + 1, b"\0\0\0\0\0")),
        ("PRIORITY_UPDATE", 1, |number| priority_update(2 * number + 1, "u=1")),
        ("WINDOW_UPDATE", 1, |_| window_update(0, 1)),
        ("GOAWAY", 1, |_| frame(GOAWAY, 0, 0, b"12345678")),
        ("SETTINGS ack", 1, |_| frame(SETTINGS, ACK, 0, b"")),
        ("unknown", 1, |_| frame(0xee, 0, 0, b"")),
        ("SETTINGS", SETTINGS_COST + 2, |number| {
            settings(&[(INITIAL_WINDOW_SIZE, number), (HEADER_TABLE_SIZE, number)])
        }),
    ];
    for (name, cost, flood) in floods {
        let times = count_accepted(&mut Peer::open(), flood);
        // We have also charged for the first SETTINGS.
        assert_eq!(times, (CREDIT_MAX - SETTINGS_COST) / cost, "{name}");
    }
}

#[test]
fn empty_frames_on_a_stream_are_bounded() {
    let mut peer = Peer::open();
    peer.send(&post(1, "/0", &[]));
    let times = count_accepted(&mut peer, |_| data(1, 0, b""));
    assert_eq!(times, CREDIT_MAX - SETTINGS_COST + crate::limits::CREDIT_PER_RESPONSE);
    // Padding is not content.
    let mut peer = blocked();
    peer.send(&post(1, "/100000", &[]));
    let padded = frame(DATA, PADDED, 1, &[1, 0]);
    assert_eq!(count_accepted(&mut peer, |_| padded.clone()), CREDIT_MAX - SETTINGS_COST);
    // A closed stream might still be reset, but each reset is charged.
    let mut peer = Peer::open();
    peer.send(&get(1, "/0"));
    count_accepted(&mut peer, |_| reset(1));
}

#[test]
fn tiny_window_updates_are_bounded() {
    // CVE-2019-9511.
    let mut peer = Peer::open();
    peer.send(&[settings(&[(INITIAL_WINDOW_SIZE, 0)]), get(1, "/100000")].concat());
    let times = count_accepted(&mut peer, |_| window_update(1, 1));
    assert_eq!(times, CREDIT_MAX - 2 * SETTINGS_COST - 1);
    // This time on all streams at once.
    let mut peer = Peer::open();
    peer.send(&settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    for number in 0..STREAMS_MAX {
        peer.send(&get(2 * number + 1, "/100000"));
    }
    let times = count_accepted(&mut peer, |number| settings(&[(INITIAL_WINDOW_SIZE, number)]));
    assert!(times <= CREDIT_MAX / SETTINGS_COST, "{times}");
}

#[test]
fn continuations_are_bounded() {
    let begun = frame(HEADERS, END_STREAM, 1, b"");
    let mut peer = Peer::open();
    peer.send(&begun);
    assert_eq!(peer.connection.awaits(), Awaits::Head);
    // CVE-2024-27316.
    let times = count_accepted(&mut peer, |_| frame(CONTINUATION, 0, 1, b"\0\x01a\x01b"));
    assert_eq!(times, u32::from(CONTINUATIONS_MAX));
    let mut peer = Peer::open();
    peer.send(&begun);
    let times = count_accepted(&mut peer, |_| frame(CONTINUATION, 0, 1, &[0; 16_384]));
    assert_eq!(times as usize, BLOCK_BYTES_MAX / 16_384);
}

#[test]
fn decompression_bombs_are_refused() {
    // A field with 4,000 bytes is inserted into the table, and each byte after that refers to it.
    let bomb =
        |times: usize| [b"\x40\x01a\x7f\x80\x1e".as_slice(), &[b'x'; 3967], &vec![0xbe; times]].concat();
    let mut peer = Peer::open();
    let block = [field_block(&request("/0", &[])), bomb(10)].concat();
    let frames = peer.send(&in_frames(1, &block, 16_384));
    assert!(matches!(frames[0], Frame::Headers(1, 431, _)), "only the request is refused: {frames:?}");
    let larger = bomb(FIELD_LIST_BYTES_DECODED_MAX / 4000 + 1);
    let frames = peer.send(&in_frames(3, &larger, 16_384));
    assert_eq!(frames, [Frame::GoAway(3, ENHANCE_YOUR_CALM)]);
}

#[test]
fn pending_responses_are_bounded() {
    let mut peer = Peer::open();
    peer.send(&settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    for number in 0..STREAMS_MAX {
        peer.send(&get(2 * number + 1, "/1000000"));
    }
    assert_eq!(peer.connection.awaits(), Awaits::Window, "the server has a timeout for this");
    assert!(peer.connection.streams.memory() <= 16 * 1024);
    assert_eq!(
        peer.send(&get(2 * STREAMS_MAX + 1, "/1")),
        [Frame::Reset(2 * STREAMS_MAX + 1, REFUSED_STREAM)]
    );
    peer.connection.end(&mut peer.output);
    assert_eq!(peer.drain(), [Frame::GoAway(2 * STREAMS_MAX + 1, NO_ERROR)]);
    assert_eq!(peer.connection.streams.memory(), 0);
}

#[test]
fn remembered_streams_are_bounded() {
    let mut peer = Peer::open();
    for number in 0..200 {
        let mut fields = request("/0", &[("connection", "close")]);
        fields[0].1 = "POST";
        peer.send(&frame(HEADERS, END_HEADERS, 2 * number + 1, &field_block(&fields)));
    }
    assert_eq!(peer.connection.streams.memory(), 0);

    // We ignore frames on the newest streams. On older ones, they lead to another reset.
    let first_remembered = 399 - 2 * (u32::try_from(RESET_STREAMS_REMEMBERED_MAX).unwrap() - 1);
    for id in [399, first_remembered] {
        assert_eq!(peer.send(&[data(id, 0, b"1"), last_headers(id, &[("a", "b")])].concat()), [], "{id}");
        assert_eq!(peer.send(&data(id, 0, b"1")), [Frame::Reset(id, STREAM_CLOSED)], "the stream had ended");
    }

    assert_eq!(
        peer.send(&data(first_remembered - 2, 0, b"1")),
        [Frame::Reset(first_remembered - 2, STREAM_CLOSED)]
    );
    // These streams do not count as open.
    assert!(!peer.connection.has_bodies());
    assert_eq!(peer.connection.awaits(), Awaits::Request);

    for number in 0..100_u32 {
        peer.send(&priority_update(1001 + 2 * number, "u=1"));
    }
    assert_eq!(peer.connection.early_priorities(), PRIORITIES_REMEMBERED_MAX);
}

#[test]
fn budget_refills_over_time() {
    let mut peer = Peer::open();
    let ping = frame(PING, 0, 0, b"12345678");
    for second in 0..1000 {
        peer.store.set_now(second);
        let frames = peer.send(&ping.repeat(CREDIT_PER_SECOND as usize));
        assert_eq!(frames.len(), CREDIT_PER_SECOND as usize, "second {second}");
    }
}

#[test]
fn honest_peer_never_exceeds_its_budget() {
    // For each response, the peer sends two window updates and a priority.
    let mut peer = Peer::open();
    for number in 0..20_000_u32 {
        let id = 2 * number + 1;
        let update = priority_update(id, "u=2");
        let frames =
            peer.send(&[update, get(id, "/13"), window_update(id, 13), window_update(0, 13)].concat());
        assert_eq!(frames.len(), 2, "{number}");
    }

    // For each frame of a long download, the peer sends two window updates.
    let mut peer = Peer::open();
    let mut frames = peer.send(&get(1, "/4000000"));
    let mut bytes = 0;
    while !frames.is_empty() {
        let mut updates = Vec::new();
        for frame in &frames {
            if let Frame::Data(_, content, _) = frame {
                bytes += content.0.len();
                let length = u32::try_from(content.0.len()).unwrap();
                updates.extend([window_update(0, length), window_update(1, length)].concat());
            }
        }
        frames = peer.send(&updates);
    }
    assert_eq!(bytes, 4_000_000);

    // The user leaves many pages, one after another. Each time, the browser will reset all open streams.
    let mut peer = Peer::open();
    for page in 0..1000_u32 {
        let ids = (0..20).map(|number| 2 * (20 * page + number) + 1);
        for id in ids.clone().take(15) {
            peer.send(&get(id, "/13"));
        }
        peer.send(&window_update(0, 15 * 13));
        peer.fills = false;
        for id in ids.skip(15) {
            assert_eq!(peer.send(&[get(id, "/100000"), reset(id)].concat()).len(), 1, "{id}");
        }
        peer.fills = true;
    }
}

#[test]
fn proxy_with_aborted_requests_stays_within_budget() {
    // All of this happens within a second, and one of a hundred requests is reset before its response.
    let mut peer = Peer::open();
    for number in 0..100_000_u32 {
        let id = 2 * number + 1;
        if number % 100 == 99 {
            peer.fills = false;
            assert_eq!(peer.send(&[get(id, "/100000"), reset(id)].concat()).len(), 1, "{number}");
            peer.fills = true;
        } else {
            assert_eq!(peer.send(&get(id, "/13")).len(), 2, "{number}");
        }
        if number % 1_000 == 0 {
            assert_eq!(peer.send(&window_update(0, 13_000)), []);
        }
    }
}

#[test]
fn pings_and_settings_keep_a_connection_for_a_day() {
    let mut peer = Peer::open();
    for tens in 0..24 * 360_u32 {
        peer.store.set_now(u64::from(tens) * 10);
        assert_eq!(peer.send(&frame(PING, 0, 0, b"are you?")).len(), 1, "{tens}");
        // Proxies do this when they measure the bandwidth and adapt their windows.
        let change = settings(&[(INITIAL_WINDOW_SIZE, 65_535 + tens), (HEADER_TABLE_SIZE, tens % 4_096)]);
        assert_eq!(peer.send(&change), [Frame::SettingsAck], "{tens}");
    }
}
