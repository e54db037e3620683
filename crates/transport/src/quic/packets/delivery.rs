//! Tracks the stream data in the packets that we send, and how much of it has been acknowledged by
//! the peer.
//!
//! While `quinn-proto` does not tell us any of this, our keys see the frames of every packet that is sealed
//! or opened. Counting the bytes of datagrams would not be enough: a peer could make us send PATH_RESPONSE
//! frames and only acknowledge these, and probes repeat data that it has not acknowledged.

use std::collections::VecDeque;

use super::frames::{Ack, Frame, Frames};

/// A packet is considered lost once this many later ones have been acknowledged (RFC 9002 §6.1.1). Its data
/// is then sent again.
const REORDERED_PACKETS_MAX: u64 = 3;

/// An empty table keeps its memory for this many packets, which is enough for the responses of a
/// page.
const IDLE_PACKETS: usize = 64;

/// Largest gap in our packet numbers before a new table is started. `quinn-proto` only skips single
/// numbers.
const GAP_MAX: u64 = 64;

/// Packets in flight that contain stream data.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// Packet number of the first entry.
    first: u64,
    /// Stream data in each packet, in bytes (0 if there is none or if the packet was acknowledged).
    packets: VecDeque<u16>,
    acknowledged: u64,
    unacknowledged: u64,
    /// Packets with stream data that were lost since all data was acknowledged.
    lost: u64,
}

impl Delivery {
    /// The number of bytes of stream data that the peer has acknowledged. Data counts twice if it was
    /// sent twice and both packets arrive.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the amount of stream data in flight, in bytes.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// The number of packets with stream data that were lost and may contain data that still is not
    /// acknowledged. This is an upper bound for the gaps between ranges that the peer has acknowledged,
    /// each of which `quinn-proto` remembers.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Forgets lost packets because the peer has acknowledged all data.
    pub(crate) fn forget_lost(&mut self) {
        self.lost = 0;
    }

    /// Frees memory that is not needed until more packets are sent.
    pub(super) fn free_unused(&mut self) {
        self.packets.shrink_to_fit();
    }

    /// Must be called when a packet is sent. Returns `true` if it issues a connection ID.
    pub(super) fn seal(&mut self, number: u64, payload: &[u8]) -> bool {
        let Contents { stream_bytes: bytes, issues_ids } = Contents::of(payload);
        if self.packets.is_empty() {
            if bytes == 0 {
                return issues_ids;
            }
            self.first = number;
        }

        let Some(gap) = number.checked_sub(self.first + self.packets.len() as u64) else { return issues_ids };
        if gap > GAP_MAX {
            self.lost += self.packets.len() as u64;
            self.packets.clear();
            self.unacknowledged = 0;
            self.first = number;
        } else if gap > 0 {
            self.packets.extend((0..gap).map(|_| 0));
        }
        self.packets.push_back(bytes);
        self.unacknowledged += u64::from(bytes);
        issues_ids
    }

    /// Processes an ACK frame from the peer.
    #[inline]
    pub(super) fn open(&mut self, ack: &Ack<'_>) {
        if self.packets.is_empty() {
            return;
        }
        let mut largest = None;
        for (low, high) in ack.numbers() {
            largest = largest.max(Some(high));
            self.acknowledge(low, high);
        }
        self.drop_lost(largest.unwrap_or(0));
    }

    /// Marks packets in this range of numbers as acknowledged.
    fn acknowledge(&mut self, low: u64, high: u64) {
        let start = low.saturating_sub(self.first);
        let end = (high + 1).saturating_sub(self.first).min(self.packets.len() as u64);
        for index in start..end {
            // This is less than the length, so it fits.
            if let Some(bytes) = self.packets.get_mut(usize::try_from(index).unwrap_or(usize::MAX)) {
                let bytes = u64::from(std::mem::take(bytes));
                self.acknowledged += bytes;
                self.unacknowledged -= bytes;
            }
        }
    }

    /// Removes the first packets if they are acknowledged or lost.
    fn drop_lost(&mut self, largest: u64) {
        let end = self.first + self.packets.len() as u64;
        while let Some(bytes) = self.packets.front().copied() {
            // If the numbers were never sent, the connection will end.
            let is_lost = largest < end && self.first + REORDERED_PACKETS_MAX <= largest;
            if bytes > 0 && !is_lost {
                return;
            }
            self.packets.pop_front();
            self.first += 1;
            self.unacknowledged -= u64::from(bytes);
            self.lost += u64::from(bytes > 0);
        }
        // All data has arrived.
        self.packets.shrink_to(IDLE_PACKETS);
    }
}

/// Contents of one of our packets.
struct Contents {
    /// Length of the stream data. A frame that only ends the stream counts as a byte.
    stream_bytes: u16,
    /// `true` if there is a NEW_CONNECTION_ID frame.
    issues_ids: bool,
}

impl Contents {
    fn of(payload: &[u8]) -> Self {
        let mut stream_bytes = 0;
        let mut issues_ids = false;
        let mut frames = Frames::new(payload);
        loop {
            // An acknowledgment comes first, or last if it was not due.
            frames.skip_ack();
            while let Some(stream) = frames.next_stream() {
                stream_bytes += stream.bytes.max(1);
            }
            frames.skip_ack();
            match frames.next() {
                Some((_, Frame::Stream(stream))) => stream_bytes += stream.bytes.max(1),
                Some((_, Frame::NewConnectionId { .. })) => issues_ids = true,
                Some(_) => {}
                None => break,
            }
        }
        Self { stream_bytes: u16::try_from(stream_bytes).unwrap_or(u16::MAX), issues_ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK frame for the packets of one range.
    fn ack(low: u8, high: u8) -> Vec<u8> {
        vec![0x02, high, 0, 0, high - low]
    }

    /// Processes the ACK frames in a payload.
    fn open(delivery: &mut Delivery, payload: &[u8]) {
        for (_, frame) in Frames::new(payload) {
            if let Frame::Ack(ack) = frame {
                delivery.open(&ack);
            }
        }
    }

    /// A packet with an ACK frame, stream data with an offset and a length, and a PING.
    fn data(bytes: u8) -> Vec<u8> {
        [&[0x02, 1, 0, 0, 0, 0x0e, 4, 9, bytes], &vec![0xaa; usize::from(bytes)][..], &[0x01]].concat()
    }

    #[test]
    fn stream_data_alone_counts() {
        let mut delivery = Delivery::default();
        delivery.seal(0, &data(50));
        // PATH_RESPONSE in a padded datagram, a PING, MAX_DATA.
        delivery.seal(1, &[&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8][..], &[0; 1200]].concat());
        delivery.seal(2, &[0x01]);
        delivery.seal(3, &[0x10, 0x44, 0x00]);
        open(&mut delivery, &ack(1, 2));
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (0, 50));
        // Another frame might come first.
        open(&mut delivery, &[&[0x01, 0, 0][..], &ack(0, 0)].concat());
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (50, 0));
    }

    #[test]
    fn repeated_acknowledgments_count_once() {
        let mut delivery = Delivery::default();
        for number in 0..4 {
            delivery.seal(number, &data(10));
        }
        for _ in 0..3 {
            open(&mut delivery, &ack(0, 2));
        }
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (30, 10));
    }

    #[test]
    fn lost_packet_counts_when_its_data_arrives() {
        let mut delivery = Delivery::default();
        for number in 0..4 {
            delivery.seal(number, &data(10));
        }
        open(&mut delivery, &ack(1, 3));
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (30, 0), "packet 0 is lost");
        delivery.seal(4, &data(10));
        assert_eq!(delivery.unacknowledged(), 10);
        open(&mut delivery, &ack(4, 4));
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (40, 0));
        assert_eq!(delivery.lost(), 1);
    }

    #[test]
    fn ranges_with_gaps_count() {
        let mut delivery = Delivery::default();
        for number in 10..20 {
            delivery.seal(number, &data(1));
        }
        // 18 to 19, 15 to 16 and 12, with ECN counts, then another frame.
        open(&mut delivery, &[0x03, 19, 0, 2, 1, 0, 1, 1, 0, 7, 7, 7, 0x01]);
        assert_eq!(delivery.acknowledged(), 5);
        assert_eq!(delivery.unacknowledged(), 1, "10, 11, 13 and 14 are lost, 17 may still arrive");
    }

    #[test]
    fn end_of_a_stream_counts_as_a_byte() {
        let mut delivery = Delivery::default();
        delivery.seal(0, &[0x0f, 4, 9, 0]);
        assert_eq!(delivery.unacknowledged(), 1);
        // The data of the last frame may extend to the end.
        delivery.seal(1, &[0x08, 4, 1, 2, 3]);
        assert_eq!(delivery.unacknowledged(), 4);
        // Packet numbers that we leave out.
        delivery.seal(3, &[0x08, 4, 1]);
        open(&mut delivery, &ack(0, 3));
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (5, 0));
    }

    #[test]
    fn invalid_frames_change_nothing() {
        let mut delivery = Delivery::default();
        delivery.seal(0, &data(10));
        for payload in
            [&[0x02][..], &[0x02, 0, 0, 9, 0], &[0x02, 0, 0, 0, 5], &[0x02, 9, 0, 1, 0, 63, 63], &[0xff]]
        {
            open(&mut delivery, payload);
        }
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (0, 10));
        // More than was sent.
        open(&mut delivery, &[0x02, 0xbf, 0xff, 0xff, 0xff, 0, 0, 0]);
        assert_eq!((delivery.acknowledged(), delivery.unacknowledged()), (0, 10));
    }
}
