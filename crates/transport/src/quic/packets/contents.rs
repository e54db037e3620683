//! Looks at the contents of opened packets in order to check frames that `quinn-proto` does not check and to
//! limit the memory that it keeps.
//!
//! Data that arrives before earlier data is kept by `quinn-proto` as a part of its packet, with the packet's
//! length counted. However, the packet may share its memory with others, or it may look shorter than it was
//! because we remove padding (which `quinn-proto` would have to parse byte by byte). To account for this, we
//! copy a packet that only uses a small part of its memory.

use bytes::BytesMut;

use super::frames::{Ack, Frame, Frames, StreamData, put_integer};
use super::records::{Packets, Piece, Records};
use crate::limits::{
    QUIC_HANDSHAKE_PIECES_MAX, QUIC_PEER_IDS_REMEMBERED_MAX, QUIC_RECEIVED_DATAGRAM_BYTES_MAX,
};

/// It is not worth shortening a payload by less padding than this.
const PADDING_BYTES_MIN: usize = 32;

/// Memory, in bytes, that a copy takes in addition to its content, for the reference count and the
/// allocator.
const COPY_BYTES: usize = 64;

/// A payload that `quinn-proto` refuses with PROTOCOL_VIOLATION in any type of packet. This is HANDSHAKE_DONE.
const VIOLATION: &[u8] = &[0x1e];

/// A payload that `quinn-proto` refuses with CRYPTO_BUFFER_EXCEEDED, namely a CRYPTO frame with an offset far
/// after the handshake.
const EXCESSIVE_CRYPTO: &[u8] = &[0x06, 0xbf, 0xff, 0xff, 0xff, 0];

/// Encryption level of a packet (RFC 9001 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Initial,
    Early,
    Handshake,
    Application,
}

/// The way to treat a packet.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Valid,
    Violation,
    ExcessiveCrypto,
    /// It acknowledges packets that `quinn-proto` must believe to be lost.
    HiddenAcknowledged,
}

/// Processes the payload of a packet that was just opened. `records` are those of its connection (there are
/// none for the first packet).
pub(crate) fn receive(level: Level, header: &[u8], payload: &mut BytesMut, records: Option<&Records>) {
    let mut packets = records.map(Records::lock);
    let piece_count = packets.as_ref().map_or(0, |packets| packets.pieces.len());
    if let Some(packets) = &mut packets {
        packets.forget_hidden();
        packets.level = level as u8;
    }

    let mut verdict = Verdict::Valid;
    let mut length = payload.len();
    let mut has_data = false;

    let mut frames = Frames::new(payload);
    loop {
        while let Some(stream) = frames.next_stream() {
            if stream.bytes > 0 {
                has_data = true;
                if let Some(packets) = &mut packets {
                    packets.add_piece(piece_count, stream);
                }
            }
        }
        if level == Level::Application
            && let Some(ack) = frames.next_ack()
        {
            if let Some(packets) = &mut packets {
                verdict = verdict.or(packets.receive_ack(&ack));
            }
            continue;
        }
        let Some((position, frame)) = frames.next() else { break };
        match frame {
            Frame::Padding => {
                // `quinn-proto` derives the number of bytes that it may send at first from the length of the
                // first packet, so that one stays as it is.
                let is_first = packets.is_none();
                // Keep one byte because packets without any frames are not allowed.
                if position.end == payload.len() && position.len() >= PADDING_BYTES_MIN && !is_first {
                    length = position.start + 1;
                }
            }
            // Its type has a longer encoding than necessary.
            Frame::Stream(stream) => {
                if stream.bytes > 0 {
                    has_data = true;
                    if let Some(packets) = &mut packets {
                        packets.add_piece(piece_count, stream);
                    }
                }
            }
            Frame::Crypto { .. } if level == Level::Early => verdict = Verdict::Violation,
            Frame::Crypto { end, bytes } => {
                if bytes > 0 {
                    has_data = true;
                    if let Some(packets) = &mut packets {
                        let end_before = &mut packets.crypto_ends[level as usize];
                        *end_before = u32::try_from(end).unwrap_or(u32::MAX).max(*end_before);
                        packets.crypto_pieces += 1;
                        if packets.crypto_pieces > QUIC_HANDSHAKE_PIECES_MAX {
                            verdict = Verdict::ExcessiveCrypto;
                        }
                    }
                }
            }
            // Its type has a longer encoding than necessary.
            Frame::Ack(ack) if level == Level::Application => {
                if let Some(packets) = &mut packets {
                    verdict = verdict.or(packets.receive_ack(&ack));
                }
            }
            Frame::NewConnectionId { sequence, retire_prior_to, id } => {
                if let Some(packets) = &mut packets
                    && !packets.is_new_id(sequence, retire_prior_to, id)
                {
                    verdict = Verdict::Violation;
                }
            }
            Frame::PathResponse(token) if level == Level::Application => {
                if let Some(packets) = &mut packets {
                    let responses = &mut packets.restricted().path_responses;
                    if responses.len() < PATH_RESPONSES_MAX {
                        responses.push(token);
                    }
                }
            }
            Frame::RetireConnectionId(sequence) if level == Level::Application => {
                if let Some(packets) = &mut packets
                    && !packets.may_retire(sequence, header)
                {
                    verdict = Verdict::Violation;
                }
            }
            // `quinn-proto` would treat it like a transport error.
            Frame::ApplicationClose if matches!(level, Level::Initial | Level::Handshake) => {
                verdict = Verdict::Violation;
            }
            // It is not possible to send these in early data (RFC 9000 §12.5). NEW_TOKEN is 0x07, and HANDSHAKE_DONE
            // is 0x1e.
            Frame::Ack(_)
            | Frame::PathResponse(_)
            | Frame::RetireConnectionId(_)
            | Frame::Other(0x07 | 0x1e)
                if level == Level::Early =>
            {
                verdict = Verdict::Violation;
            }
            Frame::Ping
            | Frame::Ack(_)
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::RetireConnectionId(_)
            | Frame::ApplicationClose
            | Frame::Other(_) => {}
        }
    }

    match verdict {
        Verdict::Valid => payload.truncate(length),
        Verdict::HiddenAcknowledged => {
            if let Some(packets) = &mut packets {
                *payload = packets.without_hidden(payload);
            }
        }
        Verdict::Violation | Verdict::ExcessiveCrypto => {
            let replacement = if verdict == Verdict::Violation { VIOLATION } else { EXCESSIVE_CRYPTO };
            *payload = BytesMut::from(replacement);
            has_data = false;
            if let Some(packets) = &mut packets {
                packets.pieces.truncate(piece_count);
            }
        }
    }
    if has_data {
        let allocated = own_memory(payload, records.map_or(0, Records::datagram_bytes));
        if let Some(packets) = &mut packets {
            packets.charge(level, piece_count, allocated);
        }
    }
}

/// Copies a payload if it only uses a small part of its memory. Returns the memory that it takes
/// afterwards, in bytes.
fn own_memory(payload: &mut BytesMut, datagram_bytes: usize) -> usize {
    // For the first datagram, we do not know the size of the buffer. Assume the largest.
    let allocated =
        if datagram_bytes == 0 { usize::from(QUIC_RECEIVED_DATAGRAM_BYTES_MAX) } else { datagram_bytes };
    if allocated > 2 * payload.len() + COPY_BYTES {
        *payload = BytesMut::from(&payload[..]);
        return payload.len() + COPY_BYTES;
    }
    allocated + COPY_BYTES
}

/// Maximum number of PATH_RESPONSE frames to read per datagram, which typically contains only one.
const PATH_RESPONSES_MAX: usize = 16;

impl Verdict {
    /// Returns this verdict, or `other` if the packet is valid so far.
    fn or(self, other: Self) -> Self {
        if self == Self::Valid { other } else { self }
    }
}

impl Packets {
    /// Adds stream data from a packet. The pieces of this packet start at index `first`.
    #[inline]
    fn add_piece(&mut self, first: usize, StreamData { id: stream, end, .. }: StreamData) {
        match self.pieces[first..].last_mut() {
            Some(last) if last.stream == stream => {
                last.end = last.end.max(end);
                last.count += 1;
            }
            _ => self.pieces.push(Piece { stream, end, count: 1, bytes: 0 }),
        }
    }

    /// Processes an ACK frame.
    #[inline]
    fn receive_ack(&mut self, ack: &Ack<'_>) -> Verdict {
        self.delivery.open(ack);
        self.acknowledge(ack.largest);
        if self.hides_any(ack) {
            return Verdict::HiddenAcknowledged;
        }
        self.acknowledged_max = ack.largest.max(self.acknowledged_max);
        Verdict::Valid
    }

    /// Charges the memory of a packet to all streams that it contains data of.
    fn charge(&mut self, level: Level, first: usize, allocated: usize) {
        let bytes = u32::try_from(allocated).unwrap_or(u32::MAX);
        for piece in &mut self.pieces[first..] {
            piece.bytes = bytes;
        }
        if level != Level::Early && self.pieces.len() == first {
            self.crypto_bytes = self.crypto_bytes.saturating_add(bytes);
        }
    }

    /// Remembers one of the peer's connection IDs. Returns `false` if its number was already used for a
    /// different ID (RFC 9000 §19.15).
    fn is_new_id(&mut self, sequence: u64, retire_prior_to: u64, id: &[u8]) -> bool {
        // No peer issues as many IDs, so the numbers of others do not matter.
        let Ok(sequence) = u32::try_from(sequence) else { return true };
        let mut start = [0; 8];
        let known_bytes = id.len().min(start.len());
        start[..known_bytes].copy_from_slice(&id[..known_bytes]);
        if let Some((_, known)) = self.peer_ids.iter().find(|(known, _)| *known == sequence) {
            return *known == start;
        }
        self.peer_ids.retain(|(known, _)| u64::from(*known) >= retire_prior_to);
        if self.peer_ids.len() < QUIC_PEER_IDS_REMEMBERED_MAX {
            self.peer_ids.push((sequence, start));
        }
        true
    }

    /// Remembers the connection IDs that are issued in our packet. All of them have the same length.
    #[cold]
    pub(super) fn issue_ids(&mut self, payload: &[u8]) {
        for (_, frame) in Frames::new(payload) {
            if let Frame::NewConnectionId { sequence, id, .. } = frame
                && let Ok(sequence) = u32::try_from(sequence)
                && self.own_ids.iter().all(|(known, _)| *known != sequence)
            {
                self.own_id_bytes = u8::try_from(id.len()).unwrap_or(u8::MAX);
                self.own_ids.push((sequence, id_end(id)));
            }
        }
    }

    /// Retires one of our connection IDs. Returns `false` if the packet that requests this uses the same ID
    /// (RFC 9000 §19.16).
    fn may_retire(&mut self, sequence: u64, header: &[u8]) -> bool {
        let destination = header.get(1..=usize::from(self.own_id_bytes)).map(id_end);
        let used = self.own_ids.iter().find(|(_, end)| destination == Some(*end));
        // The ID in our handshake was not issued in a frame. Later IDs are forgotten when they are retired,
        // after which the client may still use them in late packets.
        let used = used.map(|(sequence, _)| u64::from(*sequence)).or((!self.has_retired_ids).then_some(0));
        if used == Some(sequence) {
            return false;
        }
        self.own_ids.retain(|(known, _)| u64::from(*known) != sequence);
        self.has_retired_ids |= sequence > 0;
        true
    }

    /// Returns `true` if an ACK frame acknowledges a hidden packet.
    #[inline]
    fn hides_any(&self, ack: &Ack<'_>) -> bool {
        let Some(restricted) = &self.restricted else { return false };
        let hidden = &restricted.hidden;
        ack.numbers().any(|(low, high)| hidden.iter().any(|hidden| (low..=high).contains(hidden)))
    }

    /// Returns the frames of a payload, but leaves hidden packets out of ACK frames.
    fn without_hidden(&mut self, payload: &[u8]) -> BytesMut {
        let mut frames = Vec::with_capacity(payload.len() + 16);
        let mut end = 0;
        for (position, frame) in Frames::new(payload) {
            end = position.end;
            match frame {
                Frame::Ack(ack) => self.put_ack(&ack, &mut frames),
                Frame::Padding => frames.push(0),
                _ => frames.extend_from_slice(&payload[position]),
            }
        }
        // The rest cannot be parsed. Keep it, so that it will be refused.
        frames.extend_from_slice(&payload[end..]);
        if frames.is_empty() {
            frames.push(0);
        }
        BytesMut::from(&frames[..])
    }

    /// Appends an ACK frame without any hidden packets, or nothing if it would not acknowledge any others.
    fn put_ack(&mut self, ack: &Ack<'_>, frames: &mut Vec<u8>) {
        let mut ranges = Vec::new();
        for (low, high) in ack.numbers() {
            // Cut the hidden packets out of this range, starting with the highest.
            let mut rest = Some((low, high));
            let hidden = &self.restricted().hidden;
            let mut hidden: Vec<u64> =
                hidden.iter().copied().filter(|number| (low..=high).contains(number)).collect();
            hidden.sort_unstable_by(|one, other| other.cmp(one));
            for number in hidden {
                let Some((low, high)) = rest else { break };
                if number < high {
                    ranges.push((number + 1, high));
                }
                rest = number.checked_sub(1).filter(|below| *below >= low).map(|below| (low, below));
            }
            ranges.extend(rest);
        }

        let Some(((first_low, first_high), others)) = ranges.split_first() else { return };
        self.acknowledged_max = self.acknowledged_max.max(*first_high);
        frames.push(if ack.ecn.is_empty() { 0x02 } else { 0x03 });
        for value in [*first_high, ack.delay, others.len() as u64, first_high - first_low] {
            put_integer(value, frames);
        }
        // Each further range is relative to the one before (RFC 9000 §19.3.1).
        let mut smallest = *first_low;
        for (low, high) in others {
            put_integer(smallest - high - 2, frames);
            put_integer(high - low, frames);
            smallest = *low;
        }
        frames.extend_from_slice(ack.ecn);
    }

    /// Forgets hidden packets that `quinn-proto` considers lost. This is the case once a packet has
    /// been acknowledged that was sent three packets later.
    #[inline]
    fn forget_hidden(&mut self) {
        let acknowledged_max = self.acknowledged_max;
        if let Some(restricted) = &mut self.restricted {
            restricted.hidden.retain(|hidden| hidden + 3 > acknowledged_max);
        }
    }
}

/// Returns the last bytes of a connection ID.
fn id_end(id: &[u8]) -> [u8; 8] {
    let mut end = [0; 8];
    let bytes = id.len().min(end.len());
    end[..bytes].copy_from_slice(&id[id.len() - bytes..]);
    end
}

#[cfg(test)]
mod tests;
