//! Compares masks to a reference implementation that looks at one byte at a time.

use super::*;

/// Computes a mask byte by byte.
fn reference_mask(word: u64, matches: impl Fn(u8) -> bool) -> u64 {
    u64::from_le_bytes(word.to_le_bytes().map(|byte| if matches(byte) { 0x80 } else { 0 }))
}

#[test]
fn masks_equal_the_reference_for_all_neighbours() {
    for neighbour in [0x00, 0x01, 0x7f, 0x80, 0xff] {
        for byte in 0..=u8::MAX {
            for index in 0..WORD_BYTES {
                let mut bytes = [neighbour; WORD_BYTES];
                bytes[index] = byte;
                let word = u64::from_le_bytes(bytes);

                for wanted in [0, 1, b'/', 0x7f, 0x80, 0xff] {
                    let expected = reference_mask(word, |byte| byte == wanted);
                    assert_eq!(eq_mask(word, wanted), expected, "{word:#x} {wanted}");
                    let first = first_index(first_eq_mask(word, wanted));
                    assert_eq!(first, first_index(expected), "{word:#x} {wanted}");
                }

                for bound in [0, 1, b' ', 0x7f, 0x80] {
                    let expected = reference_mask(word, |byte| byte < bound);
                    assert_eq!(lt_mask(word, bound), expected, "{word:#x} {bound}");
                    let first = first_index(first_lt_mask(word, bound));
                    assert_eq!(first, first_index(expected), "{word:#x} {bound}");
                }
            }
        }
    }
}

#[test]
fn first_match_is_found_in_words_and_in_the_tail() {
    for length in 0..30 {
        for index in 0..=length {
            let mut bytes = vec![b'a'; length];
            bytes[index..].fill(b'?');
            let expected = (index < length).then_some(index);
            assert_eq!(find_byte(&bytes, b'?'), expected, "{index} of {length}");
        }
    }
}

#[test]
fn any_match_is_found() {
    for length in 0..30 {
        // Zeros fill the words of short slices, but do not belong to them.
        for (other, wanted) in [(b'a', b'?'), (0, b'?'), (b'?', 0)] {
            let mut bytes = vec![other; length];
            assert!(!any(&bytes, |word| eq_mask(word, wanted)), "{wanted} in {length}");
            for index in 0..length {
                bytes[index] = wanted;
                assert!(any(&bytes, |word| eq_mask(word, wanted)), "{wanted} at {index} of {length}");
                bytes[index] = other;
            }
        }
    }
}
