//! Connection timers, ordered by expiry. Each connection has one.
//!
//! Almost every packet changes the timeout of its connection, usually to a later time. The entry then stays
//! where it is and will only be corrected once it expires.

use std::collections::BTreeMap;
use std::time::Instant;

use cannery_transport::quic::ConnectionKey;

/// Timers of all connections.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<(Instant, usize), ConnectionKey>);

impl Timers {
    /// Returns when the next timer expires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first_key_value().map(|((instant, _), _)| *instant)
    }

    /// Sets a connection's timer, unless it expires earlier anyway. `armed` is when it does.
    pub(super) fn arm(&mut self, key: ConnectionKey, timeout: Option<Instant>, armed: &mut Option<Instant>) {
        let Some(timeout) = timeout else { return };
        if armed.is_some_and(|armed| armed <= timeout) {
            return;
        }
        self.disarm(key, armed);
        self.0.insert((timeout, key.index()), key);
        *armed = Some(timeout);
    }

    /// Removes a connection's timer.
    pub(super) fn disarm(&mut self, key: ConnectionKey, armed: &mut Option<Instant>) {
        if let Some(armed) = armed.take() {
            self.0.remove(&(armed, key.index()));
        }
    }

    /// Removes the next timer if it has expired. Returns the connection.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<ConnectionKey> {
        let first = self.0.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
