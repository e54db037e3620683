//! The order in which QUIC sends responses (RFC 9218 §10).
//!
//! Urgent responses come first. Among responses with the same urgency, the non-incremental ones come first;
//! they are sent one after the other, ordered by stream ID, because half of such a response is of no use to
//! the client. Incremental responses follow and take turns. Note that HTTP/2 uses the same order.

use cannery_transport::quic::StreamId;
use cannery_wire::Priority;

/// Size of the range of priority values for each urgency. QUIC sends higher values first and lets streams
/// with equal values take turns.
const NUMBERS_PER_URGENCY: i32 = 1 << 27;

const URGENCY_MAX: u8 = 7;

/// Computes the QUIC priority for a response, which will always be lower than that of our own
/// streams (`i32::MAX`).
pub(super) fn send_order(stream: StreamId, priority: Priority) -> i32 {
    let base = i32::from(URGENCY_MAX.saturating_sub(priority.urgency)) * NUMBERS_PER_URGENCY;
    if priority.incremental {
        return base;
    }
    // The two lowest bits are the stream type. Requests after the first hundred million will simply take
    // turns.
    let request = i32::try_from(stream.number() >> 2).unwrap_or(i32::MAX);
    base + NUMBERS_PER_URGENCY - 1 - request.min(NUMBERS_PER_URGENCY - 2)
}

const _: () = assert!((URGENCY_MAX as i64 + 1) * (NUMBERS_PER_URGENCY as i64) < i32::MAX as i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn order(stream: u64, urgency: u8, incremental: bool) -> i32 {
        send_order(StreamId::new(stream), Priority { urgency, incremental })
    }

    #[test]
    fn urgent_responses_come_first() {
        let last = (1 << 62) - 4;
        for urgency in 0..URGENCY_MAX {
            for stream in [0, 4, last] {
                assert!(order(stream, urgency, true) > order(0, urgency + 1, false));
            }
        }
        assert!(order(0, 0, false) < i32::MAX && order(last, 7, true) >= 0);
    }

    #[test]
    fn incremental_responses_take_turns_after_the_others() {
        assert!(order(0, 3, false) > order(4, 3, false));
        assert!(order(4, 3, false) > order(400_000, 3, false));
        let last = (1 << 62) - 4;
        assert!(order(400_000, 3, false) > order(last, 3, false));
        assert!(order(last, 3, false) > order(0, 3, true));
        assert_eq!(order(0, 3, true), order(last, 3, true));
    }
}
