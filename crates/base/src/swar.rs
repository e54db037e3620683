//! Byte search eight bytes at a time in plain integers (SWAR, "SIMD within a register").
//!
//! Request targets, paths and field values are short, so the call into a vectorized search would cost more than it saves. We
//! use SWAR rather than the `memchr` crate because it inlines into the caller, also searches for classes of bytes, and costs
//! the same on every machine.
//!
//! A *word* is eight bytes in their order, the first byte lowest. A *mask* has the highest bit set in each byte that
//! matches, and no other bit. Each byte of a mask depends on its own byte alone, except in the cheaper functions with names
//! that start with `first_`.

/// Number of bytes in a word.
pub const WORD_BYTES: usize = 8;

const HIGH_BITS: u64 = repeat(0x80);

/// Returns a word of eight times `byte`.
#[must_use]
#[inline]
pub const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD_BYTES])
}

/// Returns the mask of the bytes that equal `byte`.
#[must_use]
#[inline]
pub const fn eq_mask(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    // The sum sets the high bit of a byte if any of its lower bits is set, and never carries into the next byte.
    !(((difference & !HIGH_BITS) + !HIGH_BITS) | difference) & HIGH_BITS
}

/// Returns the mask of the bytes that are less than `bound`, which must be at most 128.
#[must_use]
#[inline]
pub const fn lt_mask(word: u64, bound: u8) -> u64 {
    debug_assert!(bound <= 0x80);
    // The sum sets the high bit of a byte if its lower seven bits are at least `bound`.
    !(((word & !HIGH_BITS) + repeat(0x80 - bound)) | word) & HIGH_BITS
}

/// Returns a mask that is zero if no byte equals `byte`. Otherwise its lowest set bit is exact.
///
/// Bytes above the first match can be flagged wrongly, because the subtraction borrows from them. In return it is
/// cheaper than [`eq_mask`].
#[must_use]
#[inline]
pub const fn first_eq_mask(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    difference.wrapping_sub(repeat(1)) & !difference & HIGH_BITS
}

/// Returns a mask that is zero if no byte is less than `bound`. Otherwise its lowest set bit is exact.
///
/// `bound` must be at most 128. Bytes above the first match can be flagged wrongly, as in [`first_eq_mask`].
#[must_use]
#[inline]
pub const fn first_lt_mask(word: u64, bound: u8) -> u64 {
    debug_assert!(bound <= 0x80);
    word.wrapping_sub(repeat(bound)) & !word & HIGH_BITS
}

/// Returns the index in its word of the first byte that `mask` flags, or 8 if it flags none.
#[must_use]
#[inline]
pub const fn first_index(mask: u64) -> usize {
    (mask.trailing_zeros() / u8::BITS) as usize
}

/// Returns the index of the first byte that matches.
///
/// `mask_of` flags the matching bytes of a word and needs to be exact for the lowest one only; `matches` is the same
/// condition for a single byte, for the up to seven bytes after the last whole word.
#[inline]
pub fn position(bytes: &[u8], mask_of: impl Fn(u64) -> u64, matches: impl Fn(u8) -> bool) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (index, word) in words.iter().enumerate() {
        let mask = mask_of(u64::from_le_bytes(*word));
        if mask != 0 {
            return Some(WORD_BYTES * index + first_index(mask));
        }
    }

    let index = rest.iter().position(|byte| matches(*byte))?;
    Some(WORD_BYTES * words.len() + index)
}

/// Returns the index of the first byte that equals `byte`.
#[must_use]
#[inline]
pub fn find_byte(bytes: &[u8], byte: u8) -> Option<usize> {
    position(bytes, |word| eq_mask(word, byte), |other| other == byte)
}

#[cfg(test)]
mod tests;
