//! Byte search that looks at eight bytes at a time, using plain integers (SWAR, "SIMD within a register").
//!
//! Request targets, paths and field values are short. Calling a vectorized search (e.g. from the `memchr` crate) would cost more
//! than it saves. SWAR, on the other hand, can be inlined into the caller, can also search for classes of bytes, and costs the same
//! on every machine.
//!
//! A *word* is eight bytes in order, with the first byte lowest. A *mask* has the highest bit set in each byte that matches, and
//! all other bits clear. Usually, each byte of the mask only depends on the same byte of the word; functions whose names start with
//! `first_` are less exact, but cheaper.

/// Number of bytes in a word.
pub const WORD_BYTES: usize = 8;

const HIGH_BITS: u64 = repeat(0x80);

/// Returns a word that repeats `byte` eight times.
#[must_use]
#[inline]
pub const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD_BYTES])
}

/// Returns a mask of the bytes that equal `byte`.
#[must_use]
#[inline]
pub const fn eq_mask(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    // The addition sets the high bit of a byte if any lower bit is set. Note that it never carries into the next byte.
    !(((difference & !HIGH_BITS) + !HIGH_BITS) | difference) & HIGH_BITS
}

/// Returns a mask of the bytes below `bound`. `bound` must be at most 128.
#[must_use]
#[inline]
pub const fn lt_mask(word: u64, bound: u8) -> u64 {
    debug_assert!(bound <= 0x80);
    // The addition sets the high bit of a byte if its lower seven bits are at least `bound`.
    !(((word & !HIGH_BITS) + repeat(0x80 - bound)) | word) & HIGH_BITS
}

/// Returns a mask whose lowest set bit is exact, or zero if no byte equals `byte`.
///
/// Above the first match, some bytes may be flagged by mistake because the subtraction borrows from them. In return, this is
/// cheaper than [`eq_mask`].
#[must_use]
#[inline]
pub const fn first_eq_mask(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    difference.wrapping_sub(repeat(1)) & !difference & HIGH_BITS
}

/// Returns a mask whose lowest set bit is exact, or zero if no byte is below `bound`.
///
/// `bound` must be at most 128. Above the first match, some bytes may be flagged by mistake, as in [`first_eq_mask`].
#[must_use]
#[inline]
pub const fn first_lt_mask(word: u64, bound: u8) -> u64 {
    debug_assert!(bound <= 0x80);
    word.wrapping_sub(repeat(bound)) & !word & HIGH_BITS
}

/// Returns the index of the first byte flagged by `mask`. If there is none, it is 8.
#[must_use]
#[inline]
pub const fn first_index(mask: u64) -> usize {
    (mask.trailing_zeros() / u8::BITS) as usize
}

/// Returns the index of the first byte that matches.
///
/// `mask_of` flags the matching bytes in a word, but only needs to be exact for the lowest one. `matches` checks a single byte:
/// there may be up to seven bytes after the last word.
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

/// Returns `true` if any byte matches. `mask_of` flags the matching bytes in a word.
///
/// No byte is looked at alone: the last word can overlap the one before.
#[inline]
pub fn any(bytes: &[u8], mask_of: impl Fn(u64) -> u64) -> bool {
    let Some(last) = bytes.last_chunk() else {
        let few = mask_of(word_of_few(bytes));
        return few & !(u64::MAX << (u8::BITS as usize * bytes.len())) != 0;
    };
    let words = &bytes[..bytes.len() - 1].as_chunks().0;
    let matches = |word: &[u8; WORD_BYTES]| mask_of(u64::from_le_bytes(*word)) != 0;
    words.iter().any(matches) || matches(last)
}

/// Returns a word that starts with these bytes (up to seven), followed by zeros.
#[inline]
fn word_of_few(bytes: &[u8]) -> u64 {
    let bits_before = |index: usize| u8::BITS as usize * index;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk::<4>()) {
        // The two halves may overlap.
        let last_half = u64::from(u32::from_le_bytes(*last)) << bits_before(bytes.len() - last.len());
        return u64::from(u32::from_le_bytes(*first)) | last_half;
    }
    let word = |(index, byte): (usize, &u8)| u64::from(*byte) << bits_before(index);
    bytes.iter().enumerate().map(word).fold(0, |all, word| all | word)
}

/// Returns the index of the first byte that equals `byte`.
#[must_use]
#[inline]
pub fn find_byte(bytes: &[u8], byte: u8) -> Option<usize> {
    position(bytes, |word| first_eq_mask(word, byte), |other| other == byte)
}

#[cfg(test)]
mod tests;
