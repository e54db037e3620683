//! The padding at the end of a packet's payload (RFC 9000 §19.1).
//!
//! Some clients pad all datagrams to full length, and a byte of padding is a frame. `quinn-proto` parses these frames one by
//! one, which would take half of the CPU time of a small request.

use super::frames::skip_frame;

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

fn trailing_zeros(payload: &[u8]) -> usize {
    let (start, words) = payload.as_rchunks::<8>();
    let zero_words = words.iter().rev().take_while(|word| **word == [0; 8]).count();
    let rest = words.split_at(words.len() - zero_words).0.last().map_or(start, |word| word.as_slice());
    let zeros = rest.iter().rev().take_while(|byte| **byte == 0).count();
    zero_words * 8 + zeros
}

#[cfg(test)]
mod tests;
