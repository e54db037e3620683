//! Unit tests of budgets: the costs of a flood, and the earnings of clients that use the server.

use std::time::Duration;

use super::*;

/// Settles this work again and again, once per `interval`. Returns the number of settlements after which the
/// budget was exceeded.
fn settlements_until_exceeded(interval: Duration, work: Work) -> Option<u64> {
    let mut budget = Budget::new();
    let start = Instant::now();
    (1..=10_000).find(|count: &u64| {
        let total = Work {
            packets: work.packets * count,
            received_frames: work.received_frames * count,
            key_phases: work.key_phases * count,
            reads: work.reads * count,
            sent_stream_frames: work.sent_stream_frames * count,
            sent_bytes: work.sent_bytes * count,
        };
        budget.settle(start + interval * u32::try_from(*count).unwrap(), total);
        budget.take_report().is_some()
    })
}

#[test]
fn datagrams_without_effect_exceed_the_budget() {
    let capacity = u64::from(QUIC_CREDIT_MAX);
    let exceeded = |work| settlements_until_exceeded(Duration::ZERO, work);
    let pings = Work { packets: 64, received_frames: 64, ..Work::default() };
    assert_eq!(exceeded(pings), Some(capacity / 68 + 1));
    // PADDING is not counted as a frame.
    assert_eq!(exceeded(Work { packets: 64, ..Work::default() }), Some(capacity / 64 + 1));
    // Acknowledgments of ours take few bytes, and answers to PATH_CHALLENGE are not STREAM frames.
    assert_eq!(exceeded(Work { sent_bytes: 64 * 1200, ..pings }), exceeded(pings));
    // Windows that are enlarged byte by byte.
    let dribble = Work { sent_stream_frames: 64, sent_bytes: 64 * 40, ..pings };
    assert!(exceeded(dribble).is_some_and(|count| count < 60));
    // Packets full of empty STREAM frames, of which one in a packet has data.
    let frames = Work { packets: 64, received_frames: 64 * 400, reads: 64, ..Work::default() };
    assert_eq!(exceeded(frames), Some(2));
    let updates = Work { packets: 2, received_frames: 2, key_phases: 1, ..Work::default() };
    assert_eq!(exceeded(updates), Some(capacity / (2 + QUIC_KEY_UPDATE_COST) + 1));
}

#[test]
fn clients_that_use_the_server_never_exceed_the_budget() {
    for work in [
        // One request after the other, acknowledged by itself.
        Work {
            packets: 2,
            received_frames: 3,
            reads: 1,
            sent_stream_frames: 1,
            sent_bytes: 180,
            ..Work::default()
        },
        // The same with instructions of QPACK, each in a datagram of its own.
        Work {
            packets: 3,
            received_frames: 5,
            reads: 2,
            sent_stream_frames: 1,
            sent_bytes: 180,
            ..Work::default()
        },
        // Batches of small requests.
        Work {
            packets: 4,
            received_frames: 36,
            reads: 32,
            sent_stream_frames: 32,
            sent_bytes: 4000,
            ..Work::default()
        },
        // A download of which each packet is acknowledged, with window updates.
        Work {
            packets: 64,
            received_frames: 128,
            sent_stream_frames: 64,
            sent_bytes: 64 * 1452,
            ..Work::default()
        },
        // An upload, which is discarded.
        Work { packets: 64, received_frames: 70, reads: 64, sent_bytes: 32 * 40, ..Work::default() },
    ] {
        assert_eq!(settlements_until_exceeded(Duration::ZERO, work), None);
    }
}

#[test]
fn keep_alive_never_exceeds_the_budget() {
    let pings = Work { packets: 90, received_frames: 90, ..Work::default() };
    assert_eq!(settlements_until_exceeded(Duration::from_secs(1), pings), None);
    assert!(settlements_until_exceeded(Duration::from_millis(500), pings).is_some());
}

#[test]
fn excess_is_reported_once() {
    let mut budget = Budget::new();
    let now = Instant::now();
    assert!(!budget.is_exceeded() && budget.take_report().is_none());
    budget.settle(now, Work { packets: 1 << 20, ..Work::default() });
    assert!(budget.is_exceeded() && budget.take_report().is_some());
    budget.settle(now, Work { packets: 1 << 21, ..Work::default() });
    assert!(budget.is_exceeded() && budget.take_report().is_none());
}
