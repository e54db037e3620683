//! Looking for the end of a target or a value, eight bytes at a time.
//!
//! Never looks at what it finds: the parser does. Each search has a slow twin, which a test holds it against.

use cannery_archive::words::{self, equal, less};

/// The place of the first byte that may not stand in a field's value (RFC 9110 §5.5).
#[inline]
pub(super) fn value_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += first_control::<b' '>(&bytes[at..])?;
        // The one control byte that may.
        if bytes[at] != b'\t' {
            return Some(at);
        }
        at += 1;
    }
}

/// The place of the first byte that may not stand in a target. Bytes beyond ASCII are let through: people type them,
/// and they mean one thing only.
#[inline]
pub(super) fn target_end(bytes: &[u8]) -> Option<usize> {
    first_control::<b'!'>(bytes)
}

/// The place of the first byte that is less than `LEAST`, or DEL.
#[inline]
fn first_control<const LEAST: u8>(bytes: &[u8]) -> Option<usize> {
    let flags = |word| less(word, LEAST) | equal(word, DEL);
    words::position(bytes, flags, |byte| byte < LEAST || byte == DEL)
}

const DEL: u8 = 0x7f;

/// Whether a token is this name in any letter case. `known` holds small letters and hyphens alone, of which no other
/// byte of a token differs in just the bit that tells capital from small letters.
#[inline]
pub(super) fn is_name<const BYTES: usize>(token: &[u8], known: &[u8; BYTES]) -> bool {
    const CASE_BIT: u8 = 0x20;
    let Ok(token) = <&[u8; BYTES]>::try_from(token) else { return false };
    let differences = token.iter().zip(known).fold(0, |all, (byte, known)| all | (byte | CASE_BIT) ^ known);
    differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_value_byte(byte: u8) -> bool {
        (byte >= b' ' && byte != DEL) || byte == b'\t'
    }

    fn is_target_byte(byte: u8) -> bool {
        byte > b' ' && byte != DEL
    }

    #[test]
    fn every_byte_in_every_place_is_told() {
        for length in 0..20 {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'a'; length];
                    bytes[place] = byte;
                    assert_eq!(value_end(&bytes), (!is_value_byte(byte)).then_some(place), "{byte} {place}");
                    assert_eq!(
                        target_end(&bytes),
                        (!is_target_byte(byte)).then_some(place),
                        "{byte} {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_told_in_any_letter_case() {
        assert!(is_name(b"if-range", b"if-range") && is_name(b"If-RANGE", b"if-range"));
        for other in ["", "if-rang", "if-ranges", "if_range", "if-rangf", "if~range", "ig-range"] {
            assert!(!is_name(other.as_bytes(), b"if-range"), "{other}");
        }
    }

    proptest! {
        #[test]
        fn ends_are_where_the_slow_search_finds_them(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(value_end(&bytes), bytes.iter().position(|byte| !is_value_byte(*byte)));
            prop_assert_eq!(target_end(&bytes), bytes.iter().position(|byte| !is_target_byte(*byte)));
        }

        #[test]
        fn long_values_with_tabs_end_where_they_end(bytes in "[\\x09 a-z]{0,60}") {
            prop_assert_eq!(value_end(bytes.as_bytes()), None);
        }
    }
}
