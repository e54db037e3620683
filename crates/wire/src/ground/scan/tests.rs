//! Tests for byte searches.

use super::*;
use proptest::prelude::*;

fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != DEL) || byte == b'\t'
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-'
}

fn is_target_byte(byte: u8) -> bool {
    byte > b' ' && byte != DEL
}

#[test]
fn every_byte_is_found_at_every_position() {
    for length in 0..20 {
        for place in 0..length {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![b'a'; length];
                bytes[place] = byte;
                assert_eq!(plain_name_end(&bytes), (!is_plain(byte)).then_some(place), "{byte} {place}");
                assert_eq!(value_end(&bytes), (!is_value_byte(byte)).then_some(place), "{byte} {place}");
                assert_eq!(target_end(&bytes), (!is_target_byte(byte)).then_some(place), "{byte} {place}");
                assert_eq!(is_value(&bytes), is_value_byte(byte), "{byte} {place}");
                assert_eq!(is_target(&bytes), is_target_byte(byte), "{byte} {place}");
            }
        }
    }
}

#[test]
fn names_match_in_any_letter_case() {
    assert!(is_name(b"if-range", b"if-range") && is_name(b"If-RANGE", b"if-range"));
    for other in ["", "if-rang", "if-ranges", "if_range", "if-rangf", "if~range", "ig-range"] {
        assert!(!is_name(other.as_bytes(), b"if-range"), "{other}");
    }
}

proptest! {
    #[test]
    fn matches_the_reference_search(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        prop_assert_eq!(value_end(&bytes), bytes.iter().position(|byte| !is_value_byte(*byte)));
        prop_assert_eq!(target_end(&bytes), bytes.iter().position(|byte| !is_target_byte(*byte)));
        prop_assert_eq!(plain_name_end(&bytes), bytes.iter().position(|byte| !is_plain(*byte)));
        prop_assert_eq!(is_value(&bytes), bytes.iter().all(|byte| is_value_byte(*byte)));
        prop_assert_eq!(is_target(&bytes), bytes.iter().all(|byte| is_target_byte(*byte)));
    }

    #[test]
    fn tabs_do_not_end_values(bytes in "[\\x09 a-z]{0,60}") {
        prop_assert_eq!(value_end(bytes.as_bytes()), None);
    }
}
