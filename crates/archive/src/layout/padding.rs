//! Padding: a record of zeros before a large body, so that the body begins with a page of the file.
//!
//! Whoever lends a body's pages to the kernel then hands over whole ones from its first byte on. A matter of the writer
//! alone: no reader relies on where a body begins, and archives without padding are as good as others, only slower to
//! send.

use super::format::Format;
use super::{BODY_KEY_BYTES, ORDINAL_KEY_BYTES};

/// A page, on most machines. Where pages are larger, or the file is not mapped at the start of one, padding is of no use
/// and does no harm.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A body from this many bytes on begins with a page. The kernel makes a segment of 17 pieces of pages at most: with a
/// head before it, a body that is smaller lies in one segment wherever it begins, and gains nothing by being moved.
pub(crate) const ALIGNED_BODY_BYTES_MIN: u64 = 15 * PAGE_BYTES;

/// Bytes of a padding record's data: zeros, so many that a body of `body_bytes` whose record stands behind it begins with
/// a page. Nothing where the body needs no padding at `position`, where the next record is to stand.
pub(crate) fn zeros_before_body(format: Format, position: u64, body_bytes: u64) -> Option<u64> {
    if body_bytes < ALIGNED_BODY_BYTES_MIN {
        return None;
    }
    let body_at = position + format.record_header_bytes() + BODY_KEY_BYTES as u64;
    match body_at.next_multiple_of(PAGE_BYTES) - body_at {
        0 => None,
        gap => {
            // What is too small for the record itself is a page more.
            let itself = padding_bytes(format, 0);
            Some(if gap < itself { gap + PAGE_BYTES } else { gap } - itself)
        }
    }
}

/// Bytes of a padding record with so many zeros.
pub(crate) const fn padding_bytes(format: Format, zeros: u64) -> u64 {
    format.record_header_bytes() + ORDINAL_KEY_BYTES as u64 + zeros
}

/// Whether the data of a padding record is what it should be. Else it would be a place to hide something.
pub(crate) fn is_sound(data: &[u8]) -> bool {
    data.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, by trying.
    fn zeros_by_trying(format: Format, position: u64) -> Option<u64> {
        let begins_page = |position: u64| {
            (position + format.record_header_bytes() + BODY_KEY_BYTES as u64).is_multiple_of(PAGE_BYTES)
        };
        if begins_page(position) {
            return None;
        }
        (0..).find(|zeros| begins_page(position + padding_bytes(format, *zeros)))
    }

    #[test]
    fn there_are_as_few_zeros_as_will_do_wherever_the_record_stands() {
        for format in [Format::Cdb, Format::Cdb64] {
            for position in 1 << 20..(1 << 20) + 2 * PAGE_BYTES {
                let zeros = zeros_before_body(format, position, ALIGNED_BODY_BYTES_MIN);
                assert_eq!(zeros, zeros_by_trying(format, position), "{format}, at {position}");
                assert!(zeros.is_none_or(|zeros| zeros < PAGE_BYTES), "{format}, at {position}");
            }
        }
    }

    #[test]
    fn a_smaller_body_stands_where_it_comes() {
        for format in [Format::Cdb, Format::Cdb64] {
            for bytes in [0, 1, PAGE_BYTES, ALIGNED_BODY_BYTES_MIN - 1] {
                assert_eq!(zeros_before_body(format, 5000, bytes), None, "{format}, {bytes} bytes");
            }
        }
    }
}
