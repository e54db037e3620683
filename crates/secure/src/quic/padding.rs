//! The padding at the end of a packet's payload (RFC 9000 §19.1).
//!
//! Some clients pad all datagrams to full length, and a byte of padding is a frame. `quinn-proto` parses these frames one by
//! one, which would take half of the CPU time of a small request.

/// Fewer bytes of padding cost less than the search for its start.
const PADDING_BYTES_MIN: usize = 32;

const PADDING: u8 = 0x00;

/// Returns the length of the payload up to the first byte of padding at its end, including that byte, because a packet
/// must not be without frames. Returns the whole length if it ends with no padding, or if a frame can't be parsed.
///
/// Zeros at the end are not always padding: a STREAM frame may extend to the end of the packet.
pub(super) fn length_without_padding(payload: &[u8]) -> usize {
    let zeros = trailing_zeros(payload);
    if zeros < PADDING_BYTES_MIN {
        return payload.len();
    }
    find_padding(payload, payload.len() - zeros).map_or(payload.len(), |start| start + 1)
}

/// Returns the position of the first PADDING frame at or after `zeros_start`, from which on all bytes are zero.
fn find_padding(payload: &[u8], zeros_start: usize) -> Option<usize> {
    let mut rest = payload;
    loop {
        let position = payload.len() - rest.len();
        if *rest.first()? == PADDING && position >= zeros_start {
            return Some(position);
        }
        rest = skip_frame(rest)?;
    }
}

/// Returns the bytes after the first frame (RFC 9000 §19). Returns `None` if it extends to the end, is of an unknown type, or
/// is cut off.
fn skip_frame(payload: &[u8]) -> Option<&[u8]> {
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

fn trailing_zeros(payload: &[u8]) -> usize {
    let (start, words) = payload.as_rchunks::<8>();
    let zero_words = words.iter().rev().take_while(|word| **word == [0; 8]).count();
    let rest = words.split_at(words.len() - zero_words).0.last().map_or(start, |word| word.as_slice());
    let zeros = rest.iter().rev().take_while(|byte| **byte == 0).count();
    zero_words * 8 + zeros
}

#[cfg(test)]
mod tests;
