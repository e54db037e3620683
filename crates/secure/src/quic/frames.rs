//! Frames of a packet's payload (RFC 9000 §19), as far as their lengths, stream data and acknowledgments.

/// Iterates over the frames of a payload that matter here. Ends at a frame that can't be parsed: `quinn-proto` closes the connection
/// for it.
pub(super) struct Frames<'a>(&'a [u8]);

/// A frame.
pub(super) enum Parsed<'a> {
    /// The data of a STREAM frame.
    Stream(&'a [u8]),
    Ack(AckRanges<'a>),
}

impl<'a> Frames<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Returns the next frame and the bytes after it, which skips those without interest.
    fn parse(mut rest: &'a [u8]) -> Option<(Parsed<'a>, &'a [u8])> {
        loop {
            match rest.first()? {
                0x02 | 0x03 => return AckRanges::parse(rest),
                frame_type @ 0x08..=0x0f => {
                    let [has_offset, has_length] = [0x04, 0x02].map(|bit| frame_type & bit != 0);
                    let data = skip_integers(&rest[1..], 1 + u64::from(has_offset))?;
                    if !has_length {
                        return Some((Parsed::Stream(data), &[]));
                    }
                    let (length, data) = integer(data)?;
                    let (data, rest) = data.split_at_checked(usize::try_from(length).ok()?)?;
                    return Some((Parsed::Stream(data), rest));
                }
                _ => rest = skip_frame(rest)?,
            }
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Parsed<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let parsed = Self::parse(self.0);
        self.0 = parsed.as_ref().map_or(&[], |(_, rest)| rest);
        parsed.map(|(frame, _)| frame)
    }
}

/// The packet numbers that an ACK frame acknowledges, as pairs of the first and the last one of a range, from high to low.
pub(super) struct AckRanges<'a> {
    /// The last number of the next range.
    high: Option<u64>,
    /// The length of the next range less one, then pairs of a gap and another such length.
    rest: &'a [u8],
    more: u64,
}

impl<'a> AckRanges<'a> {
    /// Parses an ACK frame, and returns the bytes after it.
    fn parse(frame: &'a [u8]) -> Option<(Parsed<'a>, &'a [u8])> {
        let has_counts = *frame.first()? == 0x03;
        let (largest, rest) = integer(&frame[1..])?;
        let (more, rest) = integer(skip_integers(rest, 1)?)?;
        let ranges = AckRanges { high: Some(largest), rest, more };
        let end = skip_integers(rest, more.checked_mul(2)?.checked_add(1)?)?;
        let end = if has_counts { skip_integers(end, 3)? } else { end };
        Some((Parsed::Ack(ranges), end))
    }
}

impl Iterator for AckRanges<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let high = self.high.take()?;
        let (length, rest) = integer(self.rest)?;
        let low = high.checked_sub(length)?;
        if let Some(more) = self.more.checked_sub(1) {
            let (gap, rest) = integer(rest)?;
            self.more = more;
            self.rest = rest;
            self.high = low.checked_sub(gap + 2);
        }
        Some((low, high))
    }
}

/// Returns the bytes after the first frame. Returns `None` if it extends to the end, is of an unknown type, or is cut off.
pub(super) fn skip_frame(payload: &[u8]) -> Option<&[u8]> {
    let (frame_type, rest) = payload.split_first()?;

    match frame_type {
        // PADDING, PING, HANDSHAKE_DONE
        0x00 | 0x01 | 0x1e => Some(rest),
        // IMMEDIATE_ACK (draft-ietf-quic-ack-frequency §5). Probes of the path MTU have one before their padding.
        0x1f => Some(rest),
        // ACK
        0x02 => skip_ack(rest),
        // ACK with ECN counts
        0x03 => skip_integers(skip_ack(rest)?, 3),
        // RESET_STREAM
        0x04 => skip_integers(rest, 3),
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
        0x05 | 0x11 | 0x15 => skip_integers(rest, 2),
        // CRYPTO
        0x06 => skip_data(skip_integers(rest, 1)?),
        // NEW_TOKEN
        0x07 => skip_data(rest),
        // STREAM with a length, and with an offset if another bit is set.
        0x08..=0x0f if frame_type & 0x02 != 0 => {
            let has_offset = frame_type & 0x04 != 0;
            skip_data(skip_integers(rest, 1 + u64::from(has_offset))?)
        }
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
        0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => skip_integers(rest, 1),
        // NEW_CONNECTION_ID
        0x18 => {
            let (length, rest) = skip_integers(rest, 2)?.split_first()?;
            rest.get(usize::from(*length) + 16..)
        }
        // PATH_CHALLENGE, PATH_RESPONSE
        0x1a | 0x1b => rest.get(8..),
        // ACK_FREQUENCY (draft-ietf-quic-ack-frequency §4)
        0x40 if rest.first() == Some(&0xaf) => skip_integers(&rest[1..], 4),
        _ => None,
    }
}

/// Returns the bytes after the fields of an ACK frame.
fn skip_ack(rest: &[u8]) -> Option<&[u8]> {
    let (range_count, rest) = integer(skip_integers(rest, 2)?)?;
    // The first range, then a gap and a length for each other one.
    skip_integers(rest, range_count.checked_mul(2)?.checked_add(1)?)
}

fn skip_integers(mut rest: &[u8], count: u64) -> Option<&[u8]> {
    for _ in 0..count {
        rest = rest.get(integer_bytes(*rest.first()?)..)?;
    }
    Some(rest)
}

/// Returns the bytes after data that its length precedes.
fn skip_data(rest: &[u8]) -> Option<&[u8]> {
    let (length, rest) = integer(rest)?;
    rest.get(usize::try_from(length).ok()?..)
}

/// Decodes a variable-length integer (RFC 9000 §16).
fn integer(rest: &[u8]) -> Option<(u64, &[u8])> {
    let (encoded, rest) = rest.split_at_checked(integer_bytes(*rest.first()?))?;
    let value = encoded.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let length_bits = 2;
    Some((value & (u64::MAX >> (64 - 8 * encoded.len() + length_bits)), rest))
}

/// Returns the length of a variable-length integer, which its first two bits encode.
fn integer_bytes(first: u8) -> usize {
    1 << (first >> 6)
}
