//! The table of deadlines: what connections wait for, and how long each wait may take. It holds for all protocols.
//!
//! A connection with several requests has several waits at a time, and each has its own deadline: the oldest incomplete request, the
//! handler that runs longest, and the client that receives a response. `docs/design/timeouts.md` has the effects.

use std::time::{Duration, Instant};

use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use crate::config::Timeouts;

/// The reason why a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The rest of the PROXY header or of the handshake.
    Start,
    /// The next request, if the client has one.
    Request,
    /// The rest of a request head, over HTTP/1.
    Head,
    /// The rest of a request's content over HTTP/1, of which this many [blocks](cannery_wire::limits::CONTENT_BLOCK_BYTES) were
    /// received for a handler.
    Content { blocks: usize },
    /// The rest of the oldest incomplete request of several, over HTTP/2 and HTTP/3.
    OldestRequest,
    /// The response of a handler.
    Handler,
    /// The next bytes of a body that a handler makes.
    Body,
    /// Room in the socket.
    SendRoom,
    /// Room in the client's flow-control windows, or over HTTP/3 its acknowledgments.
    Window,
    /// The end of the peer's sending direction.
    PeerClose,
}

impl Wait {
    /// Returns the timeout, or `None` if we wait for a handler, or if the caller sets a deadline of its own.
    pub(crate) fn timeout(self, timeouts: &Timeouts) -> Option<Duration> {
        match self {
            Wait::Start | Wait::Head | Wait::Content { .. } | Wait::OldestRequest => Some(timeouts.head),
            Wait::Request => Some(timeouts.idle),
            Wait::Handler => Some(timeouts.handler),
            Wait::SendRoom | Wait::Window => Some(timeouts.send),
            Wait::Body | Wait::PeerClose => None,
        }
    }

    /// Returns by how much the wait ends earlier while other clients wait for a connection.
    pub(crate) fn shortening(self, is_crowded: bool, timeouts: Option<&Timeouts>) -> Duration {
        match timeouts {
            Some(timeouts) if is_crowded && self == Wait::Request => {
                timeouts.idle.saturating_sub(timeouts.idle_crowded)
            }
            _ => Duration::ZERO,
        }
    }
}

/// Returns the wait with the earliest deadline.
pub(crate) fn earliest<const N: usize>(waits: [(Wait, Option<Instant>); N]) -> Option<(Wait, Instant)> {
    let waits = waits.into_iter().filter_map(|(wait, deadline)| Some((wait, deadline?)));
    waits.min_by_key(|(_, deadline)| *deadline)
}

/// Returns the bytes that a client must receive at least in this time.
pub(crate) fn bytes_min(window: Duration) -> u64 {
    window.as_secs().max(1) * SEND_BYTES_PER_SECOND_MIN
}

/// Whether a client receives fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Sufficient,
    TooSlow,
}

/// Progress of a client that has not received everything, from the bytes that it has acknowledged.
///
/// Clients acknowledge whole packets, so one that receives 120 bytes a second acknowledges two packets in some half minutes and three
/// in others. Bytes missing in one period therefore count against the next, and up to a packet may be missing.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When the period ends.
    until: Instant,
    /// Acknowledged bytes at its start.
    acknowledged_before: u64,
    /// Bytes that the client must acknowledge in the period.
    wanted: u64,
    /// Bytes that were missing in the periods before.
    missing: u64,
}

impl Progress {
    /// Begins a period. The client has acknowledged this many bytes, and `outstanding` ones are sent or wait to be sent.
    pub(crate) fn begin(now: Instant, window: Duration, acknowledged: u64, outstanding: u64) -> Progress {
        let wanted = bytes_min(window).min(outstanding.max(1));
        Progress { until: now + window, acknowledged_before: acknowledged, wanted, missing: 0 }
    }

    /// Checks the period if it has ended, and begins the next one.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        window: Duration,
        acknowledged: u64,
        outstanding: u64,
        packet_bytes: u64,
    ) -> Pace {
        if now < self.until {
            return Pace::Sufficient;
        }
        let received = acknowledged.saturating_sub(self.acknowledged_before);
        let missing = (self.missing + self.wanted).saturating_sub(received);
        *self = Progress { missing, ..Progress::begin(now, window, acknowledged, outstanding) };
        if received == 0 || missing > packet_bytes { Pace::TooSlow } else { Pace::Sufficient }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(30);
    const PACKET: u64 = 1400;

    /// Returns after how many periods a client is too slow that acknowledges these bytes in each.
    fn periods(outstanding: u64, acknowledged: impl Fn(u64) -> u64) -> Option<u64> {
        let start = Instant::now();
        let mut total = 0;
        let mut progress = Progress::begin(start, WINDOW, total, outstanding);
        (1..1000).find(|period| {
            total += acknowledged(*period);
            let now = start + WINDOW * u32::try_from(*period).unwrap();
            progress.check(now, WINDOW, total, outstanding, PACKET) == Pace::TooSlow
        })
    }

    #[test]
    fn client_that_takes_nothing_is_too_slow() {
        assert_eq!(periods(1_000_000, |_| 0), Some(1));
        assert_eq!(periods(1, |_| 0), Some(1), "also if it owes a byte");
        assert_eq!(periods(0, |_| 0), Some(1), "also if all of it was lost, and nothing is in flight");
    }

    #[test]
    fn rate_decides_not_the_packets_of_a_period() {
        // 120 and 101 bytes a second in packets.
        assert_eq!(
            periods(1_000_000, |period| period * 3600 / PACKET * PACKET
                - (period - 1) * 3600 / PACKET * PACKET),
            None
        );
        assert_eq!(
            periods(1_000_000, |period| period * 3030 / PACKET * PACKET
                - (period - 1) * 3030 / PACKET * PACKET),
            None
        );
        // 50, and one packet in each period.
        assert_eq!(periods(1_000_000, |_| 1500), Some(1));
        assert_eq!(periods(1_000_000, |_| PACKET), Some(1));
        // 90: what is missing adds up.
        assert_eq!(periods(1_000_000, |_| 2700), Some(5));
    }

    #[test]
    fn slow_body_needs_no_fast_client() {
        // A handler writes 50 bytes now and then, and the client acknowledges them.
        assert_eq!(periods(50, |_| 50), None);
    }
}
