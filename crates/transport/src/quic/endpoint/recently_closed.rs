//! Remembers connections that were recently closed by their peers.
//!
//! The network might delay or duplicate some datagrams of such a connection, but we must not respond to them
//! when they arrive (RFC 9000 §10.2). `quinn-proto` would keep the connection in the draining state for this
//! purpose. However, by the time its 20 kB are freed, they are no longer in the processor's cache, which
//! takes a fifth of the CPU time of a handshake.
//!
//! For this reason, we drop the connection immediately and only keep enough to recognize most of its
//! datagrams. First, this is the ID from its first packets, since those would start another connection.
//! Second, it is the peer's address: it would get a stateless reset, and its later Initial packets would
//! also start a connection. Note that these Initial packets are not recognized if they follow a Retry
//! packet; the connection they start will fail.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quinn_proto::ConnectionId;

use crate::limits::{QUIC_DRAINING_MAX, QUIC_DRAINING_MS};

/// Connections of an endpoint that were closed by their peers.
///
/// Each is kept for one to two periods of [`QUIC_DRAINING_MS`], unless [`QUIC_DRAINING_MAX`] later ones have
/// been added.
#[derive(Default)]
pub(super) struct RecentlyClosed {
    /// When the current period began. `None` if no connections were closed.
    since: Option<Instant>,
    current: Closed,
    previous: Closed,
}

/// Connections that were closed in the same period.
#[derive(Default)]
struct Closed {
    /// Destination connection IDs of their first packets.
    initial_ids: HashSet<ConnectionId>,
    peers: HashSet<SocketAddr>,
}

impl RecentlyClosed {
    /// Adds a connection that was started with this destination connection ID. `peer` should be `None` if the
    /// address may be forged.
    pub(super) fn insert(&mut self, now: Instant, initial_id: ConnectionId, peer: Option<SocketAddr>) {
        self.expire(now);
        if self.current.initial_ids.len() == QUIC_DRAINING_MAX {
            self.begin_period(now);
        }
        self.since.get_or_insert(now);
        self.current.initial_ids.insert(initial_id);
        self.current.peers.extend(peer);
    }

    /// Returns `true` if a recently closed connection was started with this destination connection ID.
    pub(super) fn has_begun_with(&mut self, now: Instant, initial_id: &ConnectionId) -> bool {
        self.expire(now);
        self.current.initial_ids.contains(initial_id) || self.previous.initial_ids.contains(initial_id)
    }

    /// Returns `true` if a recently closed connection had a peer with this address.
    pub(super) fn had_peer(&mut self, now: Instant, peer: &SocketAddr) -> bool {
        self.expire(now);
        self.current.peers.contains(peer) || self.previous.peers.contains(peer)
    }

    /// Forgets connections whose time is over. If a period had no others, their memory is freed, too.
    pub(super) fn expire(&mut self, now: Instant) {
        const PERIOD: Duration = Duration::from_millis(QUIC_DRAINING_MS);

        let Some(since) = self.since else { return };
        let elapsed = now.saturating_duration_since(since);
        if elapsed >= 2 * PERIOD || elapsed >= PERIOD && self.current.initial_ids.is_empty() {
            *self = Self::default();
        } else if elapsed >= PERIOD {
            self.begin_period(since + PERIOD);
        }
    }

    fn begin_period(&mut self, start: Instant) {
        self.since = Some(start);
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.initial_ids.clear();
        self.current.peers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn id(number: usize) -> ConnectionId {
        ConnectionId::new(&number.to_be_bytes())
    }

    fn peer(number: usize) -> SocketAddr {
        (Ipv4Addr::from_bits(u32::try_from(number).unwrap()), 443).into()
    }

    #[test]
    fn connection_is_kept_for_one_to_two_periods() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut closed = RecentlyClosed::default();
        assert!(!closed.has_begun_with(start, &id(1)) && !closed.had_peer(start, &peer(1)));

        closed.insert(start, id(1), Some(peer(1)));
        closed.insert(after(QUIC_DRAINING_MS - 1), id(2), Some(peer(2)));
        closed.insert(after(QUIC_DRAINING_MS), id(3), Some(peer(3)));
        let last = after(2 * QUIC_DRAINING_MS - 1);
        for number in 1..=3 {
            assert!(closed.has_begun_with(last, &id(number)) && closed.had_peer(last, &peer(number)));
        }
        assert!(!closed.has_begun_with(last, &id(4)) && !closed.had_peer(last, &peer(4)));

        let last = after(3 * QUIC_DRAINING_MS - 1);
        assert!(!closed.has_begun_with(last, &id(2)) && !closed.had_peer(last, &peer(2)));
        assert!(closed.has_begun_with(last, &id(3)) && closed.had_peer(last, &peer(3)));
        assert!(!closed.has_begun_with(after(10 * QUIC_DRAINING_MS), &id(3)));
    }

    #[test]
    fn time_does_not_depend_on_when_it_is_checked() {
        let start = Instant::now();
        for checked in [1, QUIC_DRAINING_MS - 1, QUIC_DRAINING_MS, 2 * QUIC_DRAINING_MS - 1] {
            let mut closed = RecentlyClosed::default();
            closed.insert(start, id(1), Some(peer(1)));
            assert!(closed.had_peer(start + Duration::from_millis(checked), &peer(1)));
            assert!(!closed.had_peer(start + Duration::from_millis(2 * QUIC_DRAINING_MS), &peer(1)));
        }
    }

    #[test]
    fn memory_is_freed_after_two_periods_without_a_connection() {
        let start = Instant::now();
        let mut closed = RecentlyClosed::default();
        for number in 0..100 {
            closed.insert(start, id(number), Some(peer(number)));
        }
        for second in 0..=2 * QUIC_DRAINING_MS / 1000 {
            assert!(closed.current.peers.capacity() + closed.previous.peers.capacity() >= 100, "{second}");
            closed.expire(start + Duration::from_secs(second));
        }
        assert_eq!(closed.current.peers.capacity() + closed.previous.peers.capacity(), 0);
        assert_eq!(closed.since, None);
    }

    #[test]
    fn number_of_connections_is_limited() {
        let now = Instant::now();
        let mut closed = RecentlyClosed::default();
        let last = 10 * QUIC_DRAINING_MAX;
        for number in 0..=last {
            closed.insert(now, id(number), Some(peer(number)));
            assert!(closed.current.peers.len() + closed.previous.peers.len() <= 2 * QUIC_DRAINING_MAX);
        }
        let kept = last - QUIC_DRAINING_MAX;
        assert!(closed.has_begun_with(now, &id(kept)) && closed.had_peer(now, &peer(kept)));
        assert!(!closed.has_begun_with(now, &id(0)) && !closed.had_peer(now, &peer(0)));
    }
}
