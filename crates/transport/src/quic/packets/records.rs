//! Records kept for a connection: the packets that were opened and their contents, the number of key
//! updates, and the stream data that the peer has acknowledged.
//!
//! Although `quinn-proto` does not tell us any of this, our keys get to see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quinn_proto::ConnectionId;

use super::delivery::Delivery;
use crate::limits::QUIC_PACKET_GAP_MAX;

/// Records of a connection. While only one thread uses them at a time, keys belong to a connection that
/// can be moved, so the records need to be atomic.
#[derive(Default)]
pub(crate) struct Records {
    has_opened_handshake: AtomicBool,
    /// One past the highest number of a packet with application data keys.
    next_number: AtomicU64,
    packets: AtomicU64,
    key_phases: AtomicU64,
    delivery: Mutex<Delivery>,
    /// One past our last 1-RTT packet number.
    sent_end: AtomicU64,
    /// One past the highest of these that was acknowledged by the peer.
    acknowledged_end: AtomicU64,
    /// Whether packets have a [limit](Packets::seal_limit).
    limits_packets: AtomicBool,
    contents: Mutex<Packets>,
}

/// Contents of packets that the connection needs to know.
#[derive(Default)]
pub(crate) struct Packets {
    /// Buffer size of the datagram that we are decrypting, in bytes, without the reference count.
    pub(crate) datagram_bytes: usize,
    /// Stream data that the connection has not looked at.
    pub(crate) pieces: Vec<Piece>,
    /// Data of PATH_RESPONSE frames that the connection has not looked at.
    pub(crate) path_responses: Vec<[u8; 8]>,
    /// CRYPTO frames with data, and the memory of their packets in bytes.
    pub(super) crypto_pieces: u32,
    pub(super) crypto_bytes: u32,
    /// Amount of handshake message data that has been received, by [level](super::contents::Level).
    pub(super) crypto_ends: [u64; 4],
    /// Amount of handshake message data that the session has read, by level. In contrast to `crypto_ends`,
    /// this includes the first packet.
    pub(super) crypto_reads: [u64; 4],
    /// Index of the level of the packet that was opened last. Handshake messages are read when one of their
    /// packets has been opened.
    pub(super) level: usize,
    /// For each connection ID of the peer, the number and the first bytes.
    pub(super) peer_ids: Vec<(u64, [u8; 8])>,
    /// Connection IDs of ours (except for the first) that the peer has not retired, and their
    /// numbers.
    pub(super) own_ids: Vec<(u64, ConnectionId)>,
    /// Whether the peer has retired one of these.
    pub(super) has_retired_ids: bool,
    /// Packets that we have sent without some of their frames.
    pub(super) hidden: Vec<u64>,
    /// Highest number that `quinn-proto` knows to be acknowledged. Does not include hidden packets.
    pub(super) acknowledged_max: u64,
    pub(super) seal_limit: SealLimit,
    pub(crate) sealed: Option<Sealed>,
}

/// Limits the length of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SealLimit {
    /// There is no limit.
    #[default]
    None,
    /// Limits packets that only respond to a PATH_CHALLENGE frame from another address.
    OtherAddress(usize),
    /// Limits all packets.
    Bytes(usize),
}

/// The last packet that was sealed with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Its length, and the length that `quinn-proto` assumes.
    pub(crate) bytes: usize,
    pub(crate) assumed_bytes: usize,
    /// Whether its purpose is to find out how long datagrams may be.
    pub(crate) is_mtu_probe: bool,
    /// Its PATH_CHALLENGE frame.
    pub(crate) challenge: Option<[u8; 8]>,
}

/// Stream data in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) stream: u64,
    /// End of the last frame.
    pub(crate) end: u64,
    /// Number of frames.
    pub(crate) count: u32,
    /// Memory of the packet, in bytes.
    pub(crate) bytes: u32,
}

impl Records {
    /// Must be called when a packet with handshake keys was opened.
    pub(crate) fn open_handshake_packet(&self) {
        self.has_opened_handshake.store(true, Ordering::Relaxed);
    }

    /// Must be called after opening a packet with application data keys.
    ///
    /// The peer must have sent all packets up to this number, so any that have not been counted are counted
    /// now. If a third party repeats packets, they will have lower numbers.
    pub(crate) fn open_packet(&self, number: u64, payload: &[u8]) {
        self.delivery().open(payload);
        let next = self.next_number.load(Ordering::Relaxed);
        if let Some(gap) = number.checked_sub(next) {
            let more = gap.saturating_add(1).min(QUIC_PACKET_GAP_MAX);
            self.packets.store(self.packets.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            self.next_number.store(number + 1, Ordering::Relaxed);
        }
    }

    /// Must be called when the session has read this many bytes of handshake messages.
    pub(crate) fn read_handshake(&self, bytes: usize) {
        let mut packets = self.lock();
        let level = packets.level;
        packets.crypto_reads[level] += bytes as u64;
    }

    /// Must be called when a packet with application data keys is sealed.
    pub(crate) fn seal_packet(&self, number: u64, payload: &[u8]) {
        self.sent_end.store(number + 1, Ordering::Relaxed);
        let issues_ids = self.delivery().seal(number, payload);
        if issues_ids {
            self.lock().issue_ids(payload);
        }
    }

    /// Returns the stream data in our packets. Only one thread uses it at a time.
    pub(crate) fn delivery(&self) -> MutexGuard<'_, Delivery> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must be called when the peer has acknowledged this packet.
    pub(super) fn acknowledge(&self, number: u64) {
        if number >= self.acknowledged_end.load(Ordering::Relaxed) {
            self.acknowledged_end.store(number.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// The number of packets sent after the last one that the peer has acknowledged, for each of which
    /// `quinn-proto` keeps some state.
    pub(crate) fn unacknowledged_packets(&self) -> u64 {
        let acknowledged = self.acknowledged_end.load(Ordering::Relaxed);
        self.sent_end.load(Ordering::Relaxed).saturating_sub(acknowledged)
    }

    /// Upper bounds for the number of handshake message pieces that are waiting for earlier ones and for the
    /// memory they take, in bytes.
    pub(crate) fn waiting_handshake(&self) -> (u32, u32) {
        let packets = self.lock();
        let is_read = packets.crypto_ends.iter().zip(&packets.crypto_reads).all(|(end, read)| end <= read);
        if is_read { (0, 0) } else { (packets.crypto_pieces, packets.crypto_bytes) }
    }

    /// Returns the contents of packets. The lock is never contended.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Packets> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if packets have a limit.
    pub(crate) fn limits_packets(&self) -> bool {
        self.limits_packets.load(Ordering::Relaxed)
    }

    /// Limits the length of packets.
    pub(crate) fn set_limit(&self, limit: SealLimit) {
        self.limits_packets.store(limit != SealLimit::None, Ordering::Relaxed);
        let mut packets = self.lock();
        packets.seal_limit = limit;
        packets.sealed = None;
    }

    /// Must be called when the keys for another phase are requested.
    pub(crate) fn begin_key_phase(&self) {
        self.key_phases.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the peer has sent a packet which proves that it has received one of ours.
    pub(crate) fn has_opened_handshake(&self) -> bool {
        self.has_opened_handshake.load(Ordering::Relaxed)
    }

    /// Returns the number of packets with application data keys that the peer has sent, according to
    /// their numbers.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Returns the number of key phases after the first, including one that was prepared in advance.
    pub(crate) fn key_phases(&self) -> u64 {
        self.key_phases.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::packets::contents::Level;

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
