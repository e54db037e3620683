//! Connections that their peers have closed recently.
//!
//! Datagrams of such a connection may still arrive, because the network delayed or duplicated them, and must not be answered
//! (RFC 9000 §10.2.2). `quinn-proto` keeps a connection for that, in the draining state. But freeing its 20 kB that late, when the
//! processor's cache no longer has them, takes a fifth of the CPU time of a handshake. So the connection is dropped at once, and what
//! recognizes its datagrams is kept here.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quinn_proto::ConnectionId;

use crate::limits::{QUIC_DRAINING_MAX, QUIC_DRAINING_MS};

/// The connections of an endpoint that their peers have closed.
///
/// Each is kept for one to two periods of [`QUIC_DRAINING_MS`], or until there are [`QUIC_DRAINING_MAX`] later ones.
#[derive(Default)]
pub(super) struct RecentlyClosed {
    /// When the current period began. `None` if no connection was closed.
    since: Option<Instant>,
    current: Closed,
    previous: Closed,
}

/// The connections that were closed in a period.
#[derive(Default)]
struct Closed {
    /// The destination connection IDs of the first packets.
    initial_ids: HashSet<ConnectionId>,
    peers: HashSet<SocketAddr>,
}

impl RecentlyClosed {
    /// Adds a connection, which began with this destination connection ID.
    pub(super) fn insert(&mut self, now: Instant, initial_id: ConnectionId, peer: SocketAddr) {
        self.expire(now);
        if self.current.initial_ids.len() == QUIC_DRAINING_MAX {
            self.begin_period(now);
        }
        self.since.get_or_insert(now);
        self.current.initial_ids.insert(initial_id);
        self.current.peers.insert(peer);
    }

    /// Returns `true` if a connection began with this destination connection ID.
    pub(super) fn has_begun_with(&mut self, now: Instant, initial_id: &ConnectionId) -> bool {
        self.expire(now);
        self.current.initial_ids.contains(initial_id) || self.previous.initial_ids.contains(initial_id)
    }

    /// Returns `true` if a connection had a peer with this address.
    pub(super) fn had_peer(&mut self, now: Instant, peer: &SocketAddr) -> bool {
        self.expire(now);
        self.current.peers.contains(peer) || self.previous.peers.contains(peer)
    }

    /// Drops the connections whose time is over.
    fn expire(&mut self, now: Instant) {
        const PERIOD: Duration = Duration::from_millis(QUIC_DRAINING_MS);

        let Some(since) = self.since else { return };
        let elapsed = now.saturating_duration_since(since);
        if elapsed >= 2 * PERIOD {
            *self = Self::default();
        } else if elapsed >= PERIOD {
            self.begin_period(now);
        }
    }

    fn begin_period(&mut self, now: Instant) {
        self.since = Some(now);
        self.previous = std::mem::take(&mut self.current);
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

        closed.insert(start, id(1), peer(1));
        closed.insert(after(QUIC_DRAINING_MS - 1), id(2), peer(2));
        closed.insert(after(QUIC_DRAINING_MS), id(3), peer(3));
        let last = after(2 * QUIC_DRAINING_MS - 1);
        for number in 1..=3 {
            assert!(closed.has_begun_with(last, &id(number)) && closed.had_peer(last, &peer(number)));
        }
        assert!(!closed.has_begun_with(last, &id(4)) && !closed.had_peer(last, &peer(4)));

        let last = after(3 * QUIC_DRAINING_MS - 1);
        assert!(!closed.has_begun_with(last, &id(2)) && !closed.had_peer(last, &peer(2)));
        assert!(closed.has_begun_with(last, &id(3)) && closed.had_peer(last, &peer(3)));

        // Nothing was asked or inserted for a long time.
        let later = after(10 * QUIC_DRAINING_MS);
        assert!(!closed.has_begun_with(later, &id(3)) && !closed.had_peer(later, &peer(3)));
    }

    #[test]
    fn number_of_connections_is_limited() {
        let now = Instant::now();
        let mut closed = RecentlyClosed::default();
        let last = 10 * QUIC_DRAINING_MAX;
        for number in 0..=last {
            closed.insert(now, id(number), peer(number));
            assert!(closed.current.peers.len() + closed.previous.peers.len() <= 2 * QUIC_DRAINING_MAX);
        }
        let kept = last - QUIC_DRAINING_MAX;
        assert!(closed.has_begun_with(now, &id(kept)) && closed.had_peer(now, &peer(kept)));
        assert!(!closed.has_begun_with(now, &id(0)) && !closed.had_peer(now, &peer(0)));
    }
}
