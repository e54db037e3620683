//! Records of a session for its connection: which packets have opened, how often keys were updated, and which stream data the peer has
//! acknowledged.
//!
//! `quinn-proto` passes none of this on, but our keys take part in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::delivery::Delivery;
use crate::limits::QUIC_PACKET_GAP_MAX;

/// The records. One thread at a time uses them; they are atomic because keys belong to a connection that may move.
#[derive(Default)]
pub(super) struct Records {
    has_opened_handshake: AtomicBool,
    /// The number after the highest one of a packet with application data keys.
    next_number: AtomicU64,
    packets: AtomicU64,
    key_phases: AtomicU64,
    delivery: Mutex<Delivery>,
}

impl Records {
    /// Records that a packet with the keys of the handshake has opened.
    pub(super) fn open_handshake_packet(&self, _number: u64, _payload: &[u8]) {
        self.has_opened_handshake.store(true, Ordering::Relaxed);
    }

    /// Records that the packet with this number has opened, with the keys of application data.
    ///
    /// Its peer has sent all packets up to the number, so this counts those that were not counted before. Packets that a third
    /// party repeats have lower numbers.
    pub(super) fn open_packet(&self, number: u64, payload: &[u8]) {
        self.delivery().open(payload);
        let next = self.next_number.load(Ordering::Relaxed);
        if let Some(gap) = number.checked_sub(next) {
            let more = gap.saturating_add(1).min(QUIC_PACKET_GAP_MAX);
            self.packets.store(self.packets.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            self.next_number.store(number + 1, Ordering::Relaxed);
        }
    }

    /// Records that the packet with this number is sent, with the keys of application data.
    pub(super) fn seal_packet(&self, number: u64, payload: &[u8]) {
        self.delivery().seal(number, payload);
    }

    /// Returns the stream data in our packets. No two threads use it at a time.
    pub(super) fn delivery(&self) -> MutexGuard<'_, Delivery> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the keys of another phase were requested.
    pub(super) fn begin_key_phase(&self) {
        self.key_phases.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the peer has sent a packet that only the receiver of ours can send.
    pub(super) fn has_opened_handshake(&self) -> bool {
        self.has_opened_handshake.load(Ordering::Relaxed)
    }

    /// Returns the number of packets with application data keys that the peer has sent, as far as their numbers show.
    pub(super) fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Returns the number of key phases after the first, with one that was prepared in advance.
    pub(super) fn key_phases(&self) -> u64 {
        self.key_phases.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_packets_are_counted_once() {
        let records = Records::default();
        for number in [0, 1, 2, 2, 1, 0, 3] {
            records.open_packet(number, &[]);
        }
        assert_eq!(records.packets(), 4);
        // Lost packets were sent too, but a large gap is not a thousand packets.
        records.open_packet(9, &[]);
        assert_eq!(records.packets(), 10);
        records.open_packet(1_000_000, &[]);
        assert_eq!(records.packets(), 10 + QUIC_PACKET_GAP_MAX);
        records.open_packet((1 << 62) - 1, &[]);
        assert_eq!(records.packets(), 10 + 2 * QUIC_PACKET_GAP_MAX);
    }
}
