//! The table of deadlines: for all protocols, the reasons why connections wait and the time that we
//! give them.
//!
//! A connection can have several requests, and therefore several deadlines at the same time, e.g. for the
//! oldest incomplete request, for the longest-running handler, and for the client to receive a response.
//! See `docs/design/timeouts.md` for the effects.

use std::time::{Duration, Instant};

use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use crate::config::Timeouts;

/// A connection may keep sending from an old release for this long, after which we send GOAWAY.
pub(crate) const OLD_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the rest of the PROXY header or handshake.
    Start,
    /// For the next request, if there will be one.
    Request,
    /// For the rest of a request head (HTTP/1).
    Head,
    /// For the rest of a request's content (HTTP/1). `blocks` is the number of
    /// [blocks](cannery_wire::limits::CONTENT_BLOCK_BYTES) received for a handler so far.
    Content { blocks: usize },
    /// For the rest of the oldest incomplete request (HTTP/2 and HTTP/3).
    OldestRequest,
    /// For a handler's response.
    Handler,
    /// For a handler to write more of a body.
    Body,
    /// For room in the socket.
    SendRoom,
    /// For room in the client's flow-control windows. With HTTP/3, also for acknowledgments.
    Window,
    /// For the peer to close the sending direction.
    PeerClose,
}

impl Wait {
    /// Returns the timeout, or `None` if a handler may take as long as it likes or if callers set their own
    /// deadlines.
    pub(crate) fn timeout(self, timeouts: &Timeouts) -> Option<Duration> {
        match self {
            Wait::Start | Wait::Head | Wait::Content { .. } | Wait::OldestRequest => Some(timeouts.head),
            Wait::Request => Some(timeouts.idle),
            Wait::Handler => Some(timeouts.handler),
            Wait::SendRoom | Wait::Window => Some(timeouts.send),
            Wait::Body | Wait::PeerClose => None,
        }
    }

    /// If other clients are waiting for a connection, the wait gets shorter by this time.
    pub(crate) fn shortening(self, is_crowded: bool, timeouts: Option<&Timeouts>) -> Duration {
        match timeouts {
            Some(timeouts) if is_crowded && self == Wait::Request => {
                timeouts.idle.saturating_sub(timeouts.idle_crowded)
            }
            _ => Duration::ZERO,
        }
    }
}

pub(crate) fn earliest<const N: usize>(waits: [(Wait, Option<Instant>); N]) -> Option<(Wait, Instant)> {
    let waits = waits.into_iter().filter_map(|(wait, deadline)| Some((wait, deadline?)));
    waits.min_by_key(|(_, deadline)| *deadline)
}

/// Returns the minimum number of bytes that a client must receive in this time.
pub(crate) fn bytes_min(window: Duration) -> u64 {
    window.as_secs().max(1) * SEND_BYTES_PER_SECOND_MIN
}

/// Tells if a client receives fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Sufficient,
    TooSlow,
}

/// Tracks how fast a client receives, by the bytes it has acknowledged.
///
/// Clients acknowledge whole packets. For example, a client that receives 120 bytes per second can
/// acknowledge two packets in one half minute and three in the next. To account for this, bytes that are
/// missing in one period are added to the next one, and up to a packet can be missing.
#[derive(Debug)]
pub(crate) struct Progress {
    /// End of the current period.
    until: Instant,
    /// Acknowledged bytes at the start of the period.
    acknowledged_before: u64,
    /// Bytes that the client must acknowledge in this period.
    wanted: u64,
    /// Bytes that were missing in earlier periods.
    missing: u64,
}

impl Progress {
    /// Starts a period. `outstanding` is the number of bytes currently in flight or waiting to be
    /// sent.
    pub(crate) fn begin(now: Instant, window: Duration, acknowledged: u64, outstanding: u64) -> Progress {
        let wanted = bytes_min(window).min(outstanding.max(1));
        Progress { until: now + window, acknowledged_before: acknowledged, wanted, missing: 0 }
    }

    /// If the period is over, checks it and starts the next one.
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

    /// Returns the number of periods after which a client is too slow that acknowledges these bytes
    /// in each.
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
