//! Padding: records full of zeros, used to page-align large bodies.
//!
//! When a body is page-aligned, zero-copy sends can pass whole pages to the kernel, and a response head plus sixteen pages will
//! fill a segment exactly. The price for this is about 2 KiB per large body. Only the writer needs to know about padding; archives
//! without it are valid, just slower to send.

use super::format::Format;
use super::{BODY_KEY_BYTES, ORDINAL_KEY_BYTES};

/// Page size on most machines. On those with larger pages, padding neither helps nor hurts.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Minimum length of page-aligned bodies.
///
/// The kernel can build a segment from up to 17 page fragments. Shorter bodies will therefore fit into one segment together with
/// their response head, no matter where they start.
pub(crate) const ALIGNED_BODY_BYTES_MIN: u64 = 15 * PAGE_BYTES;

/// Returns the number of zeros that a padding record at `position` needs to page-align the body after it.
///
/// Returns `None` if a body of `body_bytes` bytes does not need padding here.
pub(crate) fn zeros_before_body(format: Format, position: u64, body_bytes: u64) -> Option<u64> {
    if body_bytes < ALIGNED_BODY_BYTES_MIN {
        return None;
    }
    let body_at = position + format.record_header_bytes() + BODY_KEY_BYTES as u64;
    match body_at.next_multiple_of(PAGE_BYTES) - body_at {
        0 => None,
        gap => {
            // If the gap is too small for a record, use another page.
            let record_bytes_min = padding_bytes(format, 0);
            Some(if gap < record_bytes_min { gap + PAGE_BYTES } else { gap } - record_bytes_min)
        }
    }
}

/// Returns the length of a padding record, in bytes.
pub(crate) const fn padding_bytes(format: Format, zeros: u64) -> u64 {
    format.record_header_bytes() + ORDINAL_KEY_BYTES as u64 + zeros
}

/// Returns `true` if padding is all zeros. Otherwise, something could be hidden in it.
pub(crate) fn is_valid(data: &[u8]) -> bool {
    data.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like [`zeros_before_body`] for large bodies, but by trial and error.
    fn reference_zeros(format: Format, position: u64) -> Option<u64> {
        let is_aligned = |position: u64| {
            (position + format.record_header_bytes() + BODY_KEY_BYTES as u64).is_multiple_of(PAGE_BYTES)
        };
        if is_aligned(position) {
            return None;
        }
        (0..).find(|zeros| is_aligned(position + padding_bytes(format, *zeros)))
    }

    #[test]
    fn padding_is_minimal_at_every_position() {
        for format in [Format::Cdb, Format::Cdb64] {
            for position in 1 << 20..(1 << 20) + 2 * PAGE_BYTES {
                let zeros = zeros_before_body(format, position, ALIGNED_BODY_BYTES_MIN);
                assert_eq!(zeros, reference_zeros(format, position), "{format}, at {position}");
                assert!(zeros.is_none_or(|zeros| zeros < PAGE_BYTES), "{format}, at {position}");
            }
        }
    }

    #[test]
    fn short_body_is_not_padded() {
        for format in [Format::Cdb, Format::Cdb64] {
            for bytes in [0, 1, PAGE_BYTES, ALIGNED_BODY_BYTES_MIN - 1] {
                assert_eq!(zeros_before_body(format, 5000, bytes), None, "{format}, {bytes} bytes");
            }
        }
    }
}
