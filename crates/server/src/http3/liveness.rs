//! Detects that a client is lost: it does not send anything any more.

use std::time::{Duration, Instant};

use cannery_transport::quic::Stats;

use super::limits::{SILENCE_MIN, SILENCE_ROUND_TRIPS};

/// Tracks the time for which a client has been silent. As the caller sends a PING every second, a client that
/// is still there has to answer.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    received_datagrams: u64,
    since: Option<Instant>,
}

/// Tells if the client is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Lost,
}

impl Liveness {
    /// Checks if the client has sent anything within `limit`.
    pub(super) fn observe(&mut self, stats: &Stats, limit: Duration, now: Instant) -> Presence {
        if std::mem::replace(&mut self.received_datagrams, stats.received_datagrams)
            != stats.received_datagrams
        {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < limit { Presence::Present } else { Presence::Lost }
    }
}

/// Returns the time for which a client can be silent.
pub(super) fn limit(stats: &Stats) -> Duration {
    SILENCE_MIN.max(stats.round_trip * SILENCE_ROUND_TRIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of seconds after which a client counts as lost, given the number of datagrams
    /// it has sent at each second.
    fn seconds_until_lost(round_trip: Duration, datagrams: impl Fn(u64) -> u64) -> Option<u64> {
        let start = Instant::now();
        let mut liveness = Liveness::default();
        (0..100).find(|second| {
            let stats = Stats { round_trip, received_datagrams: datagrams(*second), ..Stats::default() };
            liveness.observe(&stats, limit(&stats), start + Duration::from_secs(*second)) == Presence::Lost
        })
    }

    #[test]
    fn silent_client_is_lost() {
        let fast = Duration::from_millis(1);
        assert_eq!(seconds_until_lost(fast, |_| 5), Some(SILENCE_MIN.as_secs()));
        assert_eq!(seconds_until_lost(fast, |second| second.min(10)), Some(10 + SILENCE_MIN.as_secs()));
        assert_eq!(seconds_until_lost(fast, |second| second / 3), None);
    }

    #[test]
    fn client_far_away_has_more_time() {
        let slow = Duration::from_secs(2);
        assert_eq!(seconds_until_lost(slow, |_| 5), Some(2 * u64::from(SILENCE_ROUND_TRIPS)));
    }
}
