//! Parses the frames of a packet (RFC 9000 §19) as far as our keys need to look at them.

use std::ops::Range;

/// A frame that the receiver or sender of a packet acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// All consecutive PADDING frames.
    Padding,
    Ping,
    Ack(Ack<'a>),
    Crypto {
        end: u64,
        bytes: usize,
    },
    Stream(StreamData),
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
        id: &'a [u8],
    },
    /// Sequence number of an ID that the receiver has issued.
    RetireConnectionId(u64),
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE with an application error code (type 0x1d).
    ApplicationClose,
    /// A frame of another type.
    Other(u64),
}

/// An ACK frame without the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack<'a> {
    pub(super) largest: u64,
    pub(super) delay: u64,
    /// The first range, followed by a gap and a length for each of the others.
    pub(super) ranges: &'a [u8],
    /// ECN counts, or empty if the frame has none.
    pub(super) ecn: &'a [u8],
}

impl Ack<'_> {
    /// Returns the ranges of packet numbers, starting with the highest. Stops at the first malformed range.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut rest = self.ranges;
        let mut next_high = Some(self.largest);
        std::iter::from_fn(move || {
            let high = next_high.take()?;
            let low = high.checked_sub(read_integer(&mut rest)?)?;
            next_high = read_integer(&mut rest).and_then(|gap| low.checked_sub(gap.checked_add(2)?));
            Some((low, high))
        })
    }
}

/// Iterates over the frames of a payload and their positions. This stops before a frame that is malformed or
/// has an unknown type, which `quinn-proto` will refuse.
pub(super) struct Frames<'a> {
    payload: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { payload, rest: payload }
    }

    /// Removes the first frame if it is a STREAM frame. In most packets, almost all frames are.
    #[inline]
    pub(super) fn next_stream(&mut self) -> Option<StreamData> {
        let mut rest = self.rest;
        let frame_type = u64::from(*rest.split_off_first()?);
        if frame_type & !0x07 != 0x08 {
            return None;
        }
        let stream = read_stream(frame_type, &mut rest)?;
        self.rest = rest;
        Some(stream)
    }

    /// Removes the first frame if it is an ACK frame.
    #[inline]
    pub(super) fn next_ack(&mut self) -> Option<Ack<'a>> {
        let mut rest = self.rest;
        let frame_type = *rest.split_off_first()?;
        if frame_type != 0x02 && frame_type != 0x03 {
            return None;
        }
        let ack = read_ack(&mut rest, frame_type == 0x03)?;
        self.rest = rest;
        Some(ack)
    }

    /// Removes the first frame if it is an ACK frame, without decoding its ranges.
    #[inline]
    pub(super) fn skip_ack(&mut self) {
        let mut rest = self.rest;
        if let Some(frame_type @ (0x02 | 0x03)) = rest.split_off_first()
            && skip_integers(&mut rest, 2).is_some()
            && let Some(count) = read_integer(&mut rest)
            && skip_integers(&mut rest, 2 * count + if *frame_type == 0x03 { 4 } else { 1 }).is_some()
        {
            self.rest = rest;
        }
    }

    fn read_bytes(&self) -> usize {
        self.payload.len() - self.rest.len()
    }
}

/// Data in a STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamData {
    pub(super) id: u64,
    pub(super) end: u64,
    pub(super) bytes: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = (Range<usize>, Frame<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let start = self.read_bytes();
        let frame = read_frame(&mut self.rest)?;
        Some((start..self.read_bytes(), frame))
    }
}

/// Removes the first frame.
#[inline]
fn read_frame<'a>(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    // `quinn-proto` also accepts types with a longer encoding than necessary.
    let frame_type = read_integer(rest)?;
    Some(match frame_type {
        0x00 => {
            skip_zeros(rest);
            Frame::Padding
        }
        0x01 => Frame::Ping,
        0x02 | 0x03 => Frame::Ack(read_ack(rest, frame_type == 0x03)?),

        0x06 => {
            let offset = read_integer(rest)?;
            let bytes = read_data(rest)?.len();
            Frame::Crypto { end: offset.saturating_add(bytes as u64), bytes }
        }

        0x08..=0x0f => Frame::Stream(read_stream(frame_type, rest)?),

        0x18 => {
            let (sequence, retire_prior_to) = (read_integer(rest)?, read_integer(rest)?);
            let id_bytes = usize::from(*rest.split_off_first()?);
            let id = rest.split_off(..id_bytes)?;
            rest.split_off(..16)?;
            Frame::NewConnectionId { sequence, retire_prior_to, id }
        }

        0x19 => Frame::RetireConnectionId(read_integer(rest)?),
        0x1a => Frame::PathChallenge(read_array(rest)?),
        0x1b => Frame::PathResponse(read_array(rest)?),
        0x1d => {
            skip_integers(rest, 1)?;
            read_data(rest)?;
            Frame::ApplicationClose
        }

        _ => {
            skip_other(frame_type, rest)?;
            Frame::Other(frame_type)
        }
    })
}

/// Removes the fields of a STREAM frame.
#[inline]
fn read_stream(frame_type: u64, rest: &mut &[u8]) -> Option<StreamData> {
    let id = read_integer(rest)?;
    let offset = if frame_type & 0x04 == 0 { 0 } else { read_integer(rest)? };
    let data = if frame_type & 0x02 == 0 { std::mem::take(rest) } else { read_data(rest)? };
    Some(StreamData { id, end: offset.saturating_add(data.len() as u64), bytes: data.len() })
}

/// Removes the fields of a frame of another type.
#[inline(never)]
fn skip_other(frame_type: u64, rest: &mut &[u8]) -> Option<()> {
    match frame_type {
        // RESET_STREAM
        0x04 => skip_integers(rest, 3),
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
        0x05 | 0x11 | 0x15 => skip_integers(rest, 2),
        // NEW_TOKEN
        0x07 => read_data(rest).map(drop),
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED
        0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 => skip_integers(rest, 1),

        // CONNECTION_CLOSE by the transport
        0x1c => {
            skip_integers(rest, 2)?;
            read_data(rest).map(drop)
        }

        // HANDSHAKE_DONE, IMMEDIATE_ACK (draft-ietf-quic-ack-frequency §5)
        0x1e | 0x1f => Some(()),
        // DATAGRAM (RFC 9221 §4)
        0x30 => {
            *rest = &[];
            Some(())
        }
        0x31 => read_data(rest).map(drop),
        // ACK_FREQUENCY
        0xaf => skip_integers(rest, 4),
        _ => None,
    }
}

#[inline]
fn read_ack<'a>(rest: &mut &'a [u8], has_ecn: bool) -> Option<Ack<'a>> {
    let (largest, delay, count) = (read_integer(rest)?, read_integer(rest)?, read_integer(rest)?);
    let integers = count.checked_mul(2)?.checked_add(1)?;
    let ranges = take_integers(rest, integers)?;
    let ecn = if has_ecn { take_integers(rest, 3)? } else { &[] };
    Some(Ack { largest, delay, ranges, ecn })
}

/// Removes some data and the length before it.
#[inline]
fn read_data<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read_integer(rest)?).ok()?;
    rest.split_off(..length)
}

#[inline]
fn skip_integers(rest: &mut &[u8], count: u64) -> Option<()> {
    take_integers(rest, count).map(drop)
}

/// Removes variable-length integers without decoding them.
#[inline]
fn take_integers<'a>(rest: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let mut end = 0;
    for _ in 0..count {
        end += 1 << (rest.get(end)? >> 6);
    }
    rest.split_off(..end)
}

/// Removes a variable-length integer (RFC 9000 §16).
#[inline]
pub(super) fn read_integer(rest: &mut &[u8]) -> Option<u64> {
    // Most integers are short: types, stream IDs, and almost everything in an ACK frame.
    let (first, others) = rest.split_first()?;
    if *first < 0x40 {
        *rest = others;
        return Some(u64::from(*first));
    }
    read_long_integer(rest)
}

/// Removes an integer of two, four or eight bytes.
fn read_long_integer(rest: &mut &[u8]) -> Option<u64> {
    match *rest.first()? >> 6 {
        2 => Some(u64::from(u32::from_be_bytes(read_array(rest)?) & (u32::MAX >> 2))),
        3 => Some(u64::from_be_bytes(read_array(rest)?) & (u64::MAX >> 2)),
        _ => Some(u64::from(u16::from_be_bytes(read_array(rest)?) & (u16::MAX >> 2))),
    }
}

#[inline]
fn read_array<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (array, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*array)
}

/// Appends a variable-length integer. It must be less than 2^62.
pub(super) fn put_integer(value: u64, bytes: &mut Vec<u8>) {
    match value {
        0..0x40 => bytes.push(value.to_be_bytes()[7]),
        0x40..0x4000 => bytes.extend_from_slice(&(0x4000 | value).to_be_bytes()[6..]),
        0x4000..0x4000_0000 => bytes.extend_from_slice(&(0x8000_0000 | value).to_be_bytes()[4..]),
        _ => bytes.extend_from_slice(&(0xc000_0000_0000_0000 | value).to_be_bytes()),
    }
}

/// Removes any zeros at the start. Some clients pad all datagrams to full length, so this should be fast.
fn skip_zeros(rest: &mut &[u8]) {
    let words = rest.as_chunks::<8>().0.iter().take_while(|word| **word == [0; 8]).count();
    *rest = &rest[8 * words..];
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    *rest = &rest[zeros..];
}

#[cfg(test)]
mod tests;
