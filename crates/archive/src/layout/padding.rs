//! Padding: a record of zeros that page-aligns the large body after it.
//!
//! A server that sends a page-aligned body zero-copy passes whole pages to the kernel, so that a response head and sixteen
//! pages fill a segment exactly. Padding costs about 2 KiB per large body. Only the writer knows about it: readers do not
//! rely on the alignment, and archives without padding are valid and only slower to send.

use super::format::Format;
use super::{BODY_KEY_BYTES, ORDINAL_KEY_BYTES};

/// The page size of most machines. On a machine with larger pages, padding is useless and harmless.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The minimum length of a body that is page-aligned.
///
/// The kernel builds a segment from at most 17 page fragments. A shorter body and its response head fit one segment wherever
/// the body starts, so alignment would gain nothing.
pub(crate) const ALIGNED_BODY_BYTES_MIN: u64 = 15 * PAGE_BYTES;

/// Returns the length of the data of a padding record at `position` that page-aligns the following body.
///
/// Returns `None` if a body of `body_bytes` bytes needs no padding at `position`.
pub(crate) fn zeros_before_body(format: Format, position: u64, body_bytes: u64) -> Option<u64> {
    if body_bytes < ALIGNED_BODY_BYTES_MIN {
        return None;
    }
    let body_at = position + format.record_header_bytes() + BODY_KEY_BYTES as u64;
    match body_at.next_multiple_of(PAGE_BYTES) - body_at {
        0 => None,
        gap => {
            // A gap that is too small for a record is extended by a page.
            let record_bytes_min = padding_bytes(format, 0);
            Some(if gap < record_bytes_min { gap + PAGE_BYTES } else { gap } - record_bytes_min)
        }
    }
}

/// Returns the length of a padding record with `zeros` bytes of data.
pub(crate) const fn padding_bytes(format: Format, zeros: u64) -> u64 {
    format.record_header_bytes() + ORDINAL_KEY_BYTES as u64 + zeros
}

/// Returns `true` if the data of a padding record is all zeros. Otherwise, arbitrary data could be hidden in it.
pub(crate) fn is_valid(data: &[u8]) -> bool {
    data.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes [`zeros_before_body`] for a large body by trial and error.
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
