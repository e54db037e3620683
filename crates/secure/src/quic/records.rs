//! Records of a session for its connection: which packets have opened, what they contain, how often keys were updated, and which stream
//! data the peer has acknowledged.
//!
//! `quinn-proto` passes none of this on, but our keys take part in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quinn_proto::ConnectionId;

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
    /// One past our last 1-RTT packet number.
    sent_end: AtomicU64,
    /// One past the highest of them that the peer has acknowledged.
    acknowledged_end: AtomicU64,
    /// Whether packets have a [limit](Packets::seal_limit).
    limits_packets: AtomicBool,
    contents: Mutex<Packets>,
}

/// The contents of packets, as far as a connection needs to know them.
#[derive(Default)]
pub(super) struct Packets {
    /// Buffer size of the datagram that we are decrypting, in bytes, without its reference count.
    pub(super) datagram_bytes: usize,
    /// Data of streams that the connection hasn't looked at.
    pub(super) pieces: Vec<Piece>,
    /// The data of PATH_RESPONSE frames that the connection hasn't looked at.
    pub(super) path_responses: Vec<[u8; 8]>,
    /// CRYPTO frames with data, and the memory of their packets in bytes.
    pub(super) crypto_pieces: u32,
    pub(super) crypto_bytes: u32,
    /// The length of the handshake messages that have arrived, by [level](super::contents::Level).
    pub(super) crypto_ends: [u64; 4],
    /// Bytes of handshake messages that the session has read, by level. Those in the first packet are not in `crypto_ends`.
    pub(super) crypto_reads: [u64; 4],
    /// The level of the packet that has opened last, as an index. Handshake messages are read when a packet of theirs has opened.
    pub(super) level: usize,
    /// Numbers of the peer's connection IDs, with the first bytes of each.
    pub(super) peer_ids: Vec<(u64, [u8; 8])>,
    /// Our connection IDs after the first that the peer hasn't retired, with their numbers.
    pub(super) own_ids: Vec<(u64, ConnectionId)>,
    /// Whether the peer has retired one of these.
    pub(super) has_retired_ids: bool,
    /// Packets that were sent without a part of their frames.
    pub(super) hidden: Vec<u64>,
    /// The highest number that `quinn-proto` knows to be acknowledged, except that of hidden packets.
    pub(super) acknowledged_max: u64,
    pub(super) seal_limit: SealLimit,
    pub(super) sealed: Option<Sealed>,
}

/// How long the packets of a transmission may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SealLimit {
    /// As long as they are.
    #[default]
    None,
    /// Packets that only answer a PATH_CHALLENGE frame from another address: this many bytes.
    OtherAddress(usize),
    /// This many bytes.
    Bytes(usize),
}

/// The last packet that was sealed with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    /// Its length, and the one that `quinn-proto` assumes.
    pub(super) bytes: usize,
    pub(super) assumed_bytes: usize,
    /// Whether it measures how long datagrams may be on the path.
    pub(super) is_mtu_probe: bool,
    /// The PATH_CHALLENGE frame in it.
    pub(super) challenge: Option<[u8; 8]>,
}

/// Data of a stream, in one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stream: u64,
    /// The end of the last one in the stream.
    pub(super) end: u64,
    /// The number of frames.
    pub(super) count: u32,
    /// The memory of the packet, in bytes.
    pub(super) bytes: u32,
}

impl Records {
    /// Records that a packet with the keys of the handshake has opened.
    pub(super) fn open_handshake_packet(&self) {
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

    /// Records that the session has read handshake messages of this length.
    pub(super) fn read_handshake(&self, bytes: usize) {
        let mut packets = self.lock();
        let level = packets.level;
        packets.crypto_reads[level] += bytes as u64;
    }

    /// Records that the packet with this number is sealed, with the keys of application data.
    pub(super) fn seal_packet(&self, number: u64, payload: &[u8]) {
        self.sent_end.store(number + 1, Ordering::Relaxed);
        let issues_ids = self.delivery().seal(number, payload);
        if issues_ids {
            self.lock().issue_ids(payload);
        }
    }

    /// Returns the stream data in our packets. No two threads use it at a time.
    pub(super) fn delivery(&self) -> MutexGuard<'_, Delivery> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the peer has acknowledged the packet with this number.
    pub(super) fn acknowledge(&self, number: u64) {
        if number >= self.acknowledged_end.load(Ordering::Relaxed) {
            self.acknowledged_end.store(number.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Returns how many packets were sent after the last one that the peer has acknowledged. `quinn-proto` keeps state of each.
    pub(super) fn unacknowledged_packets(&self) -> u64 {
        let acknowledged = self.acknowledged_end.load(Ordering::Relaxed);
        self.sent_end.load(Ordering::Relaxed).saturating_sub(acknowledged)
    }

    /// Returns the number of pieces of handshake messages that wait for earlier ones, and their memory in bytes, or more.
    pub(super) fn waiting_handshake(&self) -> (u32, u32) {
        let packets = self.lock();
        let is_read = packets.crypto_ends.iter().zip(&packets.crypto_reads).all(|(end, read)| end <= read);
        if is_read { (0, 0) } else { (packets.crypto_pieces, packets.crypto_bytes) }
    }

    /// Returns the contents of packets. The lock is always free.
    pub(super) fn lock(&self) -> MutexGuard<'_, Packets> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if packets have a limit.
    pub(super) fn limits_packets(&self) -> bool {
        self.limits_packets.load(Ordering::Relaxed)
    }

    /// Limits the length of packets.
    pub(super) fn set_limit(&self, limit: SealLimit) {
        self.limits_packets.store(limit != SealLimit::None, Ordering::Relaxed);
        let mut packets = self.lock();
        packets.seal_limit = limit;
        packets.sealed = None;
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
    use super::super::contents::Level;
    use super::*;

    #[test]
    fn handshake_messages_wait_at_their_own_level() {
        const INITIAL: usize = Level::Initial as usize;
        let records = Records::default();
        // The first packet has no records, but the session reads it.
        records.read_handshake(600);
        assert_eq!(records.waiting_handshake(), (0, 0));
        for (level, end) in [(Level::Handshake, 500), (Level::Application, 600), (Level::Initial, 601)] {
            let mut packets = records.lock();
            packets.crypto_ends = [0; 4];
            packets.level = level as usize;
            packets.crypto_ends[level as usize] = end;
            (packets.crypto_pieces, packets.crypto_bytes) = (1, 1200);
            drop(packets);
            assert_eq!(records.waiting_handshake(), (1, 1200), "{level:?}");
            records.read_handshake(usize::try_from(end).unwrap());
            assert_eq!(records.waiting_handshake(), (0, 0), "{level:?}");
        }
        assert_eq!(records.lock().crypto_reads[INITIAL], 1201);
    }

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
