//! Records kept for a connection: the packets that were opened and their contents, the number of key
//! updates, and the stream data that the peer has acknowledged.
//!
//! Although `quinn-proto` does not tell us any of this, our keys get to see it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// Buffer size of the datagram that we are decrypting, in bytes, without the reference count.
    datagram_bytes: AtomicUsize,
    /// Whether packets have a [limit](RestrictedPackets::limit).
    limits_packets: AtomicBool,
    contents: Mutex<Packets>,
}

/// Contents of packets that the connection needs to know.
#[derive(Default)]
pub(crate) struct Packets {
    /// Stream data in our packets.
    pub(crate) delivery: Delivery,
    /// One past our last 1-RTT packet number.
    sent_end: u64,
    /// One past the highest of these that was acknowledged by the peer.
    acknowledged_end: u64,
    /// Stream data that the connection has not looked at.
    pub(crate) pieces: Vec<Piece>,
    /// CRYPTO frames with data, and the memory of their packets in bytes.
    pub(super) crypto_pieces: u32,
    pub(super) crypto_bytes: u32,
    /// Amount of handshake message data that has been received, by [level](super::contents::Level).
    pub(super) crypto_ends: [u32; 4],
    /// Amount of handshake message data that the session has read, by level. In contrast to `crypto_ends`,
    /// this includes the first packet.
    pub(super) crypto_reads: [u32; 4],
    /// Index of the level of the packet that was opened last. Handshake messages are read when one of their
    /// packets has been opened.
    pub(super) level: u8,
    /// Length of the connection IDs that we have issued.
    pub(super) own_id_bytes: u8,
    /// Whether the peer has retired one of these.
    pub(super) has_retired_ids: bool,
    /// Connection IDs of ours (except for the first) that the peer has not retired: their numbers and last
    /// bytes. The first bytes may be the same in all of them.
    pub(super) own_ids: Vec<(u32, [u8; 8])>,
    /// For each connection ID of the peer, the number and the first bytes.
    pub(super) peer_ids: Vec<(u32, [u8; 8])>,
    /// Highest number that `quinn-proto` knows to be acknowledged. Does not include hidden packets.
    pub(super) acknowledged_max: u64,
    /// Most peers never change their address, so their connections do not need this.
    pub(super) restricted: Option<Box<RestrictedPackets>>,
}

/// Records of packets to and from addresses that may be forged.
#[derive(Default)]
pub(crate) struct RestrictedPackets {
    /// Data of PATH_RESPONSE frames that the connection has not looked at.
    pub(super) path_responses: Vec<[u8; 8]>,
    /// Packets that we have sent without some of their frames.
    pub(super) hidden: Vec<u64>,
    pub(super) limit: SealLimit,
    pub(super) sealed: Option<Sealed>,
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
    pub(crate) fn open_packet(&self, number: u64) {
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
        let level = usize::from(packets.level);
        let reads = &mut packets.crypto_reads[level];
        *reads = reads.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Must be called when a packet with application data keys is sealed.
    #[inline]
    pub(crate) fn seal_packet(&self, number: u64, payload: &[u8]) {
        let mut packets = self.lock();
        packets.sent_end = number + 1;
        if packets.delivery.seal(number, payload) {
            packets.issue_ids(payload);
        }
    }

    /// Must be called before a datagram is decrypted. `bytes` is the size of its buffer.
    pub(crate) fn begin_datagram(&self, bytes: usize) {
        self.datagram_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the buffer size of the datagram that we are decrypting, or 0 if it is not known.
    pub(super) fn datagram_bytes(&self) -> usize {
        self.datagram_bytes.load(Ordering::Relaxed)
    }

    /// Returns the contents of packets. The lock is never contended.
    #[inline]
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
        let restricted = packets.restricted();
        restricted.limit = limit;
        restricted.sealed = None;
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

impl Packets {
    /// Returns the records of packets to and from addresses that may be forged.
    pub(super) fn restricted(&mut self) -> &mut RestrictedPackets {
        self.restricted.get_or_insert_default()
    }

    /// Returns the last packet that was sealed with a limit.
    pub(crate) fn take_sealed(&mut self) -> Option<Sealed> {
        self.restricted.as_mut()?.sealed.take()
    }

    /// Returns the data of the PATH_RESPONSE frames that the connection has not looked at.
    #[inline]
    pub(crate) fn take_path_responses(&mut self) -> Vec<[u8; 8]> {
        let restricted = self.restricted.as_mut();
        restricted.map(|restricted| std::mem::take(&mut restricted.path_responses)).unwrap_or_default()
    }

    /// Must be called when the peer has acknowledged this packet.
    #[inline]
    pub(super) fn acknowledge(&mut self, number: u64) {
        self.acknowledged_end = self.acknowledged_end.max(number.saturating_add(1));
    }

    /// The number of packets sent after the last one that the peer has acknowledged, for each of which
    /// `quinn-proto` keeps some state.
    #[inline]
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.sent_end.saturating_sub(self.acknowledged_end)
    }

    /// Upper bounds for the number of handshake message pieces that are waiting for earlier ones and for the
    /// memory they take, in bytes.
    #[inline]
    pub(crate) fn waiting_handshake(&self) -> (u32, u32) {
        let is_read = self.crypto_ends.iter().zip(&self.crypto_reads).all(|(end, read)| end <= read);
        if is_read { (0, 0) } else { (self.crypto_pieces, self.crypto_bytes) }
    }

    /// Frees memory that is only needed while packets arrive.
    pub(crate) fn free_unused(&mut self) {
        self.delivery.free_unused();
        self.pieces.shrink_to_fit();
        self.own_ids.shrink_to_fit();
        self.peer_ids.shrink_to_fit();
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
        assert_eq!(records.lock().waiting_handshake(), (0, 0));
        for (level, end) in [(Level::Handshake, 500), (Level::Application, 600), (Level::Initial, 601)] {
            let mut packets = records.lock();
            packets.crypto_ends = [0; 4];
            packets.level = level as u8;
            packets.crypto_ends[level as usize] = end;
            (packets.crypto_pieces, packets.crypto_bytes) = (1, 1200);
            drop(packets);
            assert_eq!(records.lock().waiting_handshake(), (1, 1200), "{level:?}");
            records.read_handshake(end as usize);
            assert_eq!(records.lock().waiting_handshake(), (0, 0), "{level:?}");
        }
        assert_eq!(records.lock().crypto_reads[INITIAL], 1201);
    }

    #[test]
    fn repeated_packets_are_counted_once() {
        let records = Records::default();
        for number in [0, 1, 2, 2, 1, 0, 3] {
            records.open_packet(number);
        }
        assert_eq!(records.packets(), 4);
        // Lost packets were sent too, but a large gap is not a thousand packets.
        records.open_packet(9);
        assert_eq!(records.packets(), 10);
        records.open_packet(1_000_000);
        assert_eq!(records.packets(), 10 + QUIC_PACKET_GAP_MAX);
        records.open_packet((1 << 62) - 1);
        assert_eq!(records.packets(), 10 + 2 * QUIC_PACKET_GAP_MAX);
    }
}
