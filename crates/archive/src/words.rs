//! Looking at bytes eight at a time, for those who read targets, paths and fields on the way of a request.
//!
//! A word is eight bytes in their order, the first one lowest. A search gives flags: the highest bit of each byte that
//! it is for, and no other bit. No flag depends on the bytes beside its own.

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

const HIGHEST_BITS: u64 = every(0x80);

/// A word of eight such bytes.
#[must_use]
pub const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD_BYTES])
}

/// The bytes that are this one.
#[must_use]
#[inline]
pub const fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ every(byte);
    // The sum reaches the highest bit if any other one is set, and never goes beyond its byte.
    !(((difference & !HIGHEST_BITS) + !HIGHEST_BITS) | difference) & HIGHEST_BITS
}

/// Not nothing if any byte is this one. Those above the first may be flagged wrongly, since a subtraction borrows from
/// them: that is cheaper, for who asks no more than whether there is one.
#[must_use]
#[inline]
pub const fn any_equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ every(byte);
    difference.wrapping_sub(every(1)) & !difference & HIGHEST_BITS
}

/// The same for bytes that are less than `bound`, which is no more than 128.
#[must_use]
#[inline]
pub const fn any_less(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(every(bound)) & !word & HIGHEST_BITS
}

/// The bytes that are less than `bound`, which is no more than 128.
#[must_use]
#[inline]
pub const fn less(word: u64, bound: u8) -> u64 {
    // The sum reaches the highest bit if the byte, without its own highest one, is no less.
    !(((word & !HIGHEST_BITS) + every(0x80 - bound)) | word) & HIGHEST_BITS
}

/// The place in its word of the first byte that is flagged; 8 if none is.
#[must_use]
#[inline]
pub const fn first(flags: u64) -> usize {
    (flags.trailing_zeros() / u8::BITS) as usize
}

/// The place of the first byte that `flag_word` flags in its word; for bytes that fill no word, `is_wanted` tells.
#[inline]
pub fn position(
    bytes: &[u8],
    flag_word: impl Fn(u64) -> u64,
    is_wanted: impl Fn(u8) -> bool,
) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (number, word) in words.iter().enumerate() {
        let flags = flag_word(u64::from_le_bytes(*word));
        if flags != 0 {
            return Some(WORD_BYTES * number + first(flags));
        }
    }
    let place = rest.iter().position(|byte| is_wanted(*byte))?;
    Some(WORD_BYTES * words.len() + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that a slow look at each byte sets.
    fn slow(word: u64, is_wanted: impl Fn(u8) -> bool) -> u64 {
        u64::from_le_bytes(word.to_le_bytes().map(|byte| if is_wanted(byte) { 0x80 } else { 0 }))
    }

    #[test]
    fn flags_are_those_of_a_slow_look_whatever_stands_beside() {
        for beside in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            for byte in 0..=u8::MAX {
                for place in 0..WORD_BYTES {
                    let mut bytes = [beside; WORD_BYTES];
                    bytes[place] = byte;
                    let word = u64::from_le_bytes(bytes);
                    for other in [0, 1, b'/', 0x7f, 0x80, 0xff] {
                        let slow = slow(word, |byte| byte == other);
                        assert_eq!(equal(word, other), slow, "{word:#x} {other}");
                        assert_eq!(first(any_equal(word, other)), first(slow), "{word:#x} {other}");
                    }
                    for bound in [0, 1, b' ', 0x7f, 0x80] {
                        let slow = slow(word, |byte| byte < bound);
                        assert_eq!(less(word, bound), slow, "{word:#x} {bound}");
                        assert_eq!(first(any_less(word, bound)), first(slow), "{word:#x} {bound}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_flagged_byte_is_found_in_words_and_behind_them() {
        for length in 0..30 {
            for place in 0..=length {
                let mut bytes = vec![b'a'; length];
                bytes[place..].fill(b'?');
                let found = position(&bytes, |word| equal(word, b'?'), |byte| byte == b'?');
                assert_eq!(found, (place < length).then_some(place), "{place} of {length}");
            }
        }
    }
}
