//! Tests for the QPACK encoder: all forms of fields, names of lines, and statuses.

use super::*;

#[test]
fn fields_take_the_shortest_form() {
    let put = |name: &str, value: &str| {
        let mut section = Vec::new();
        put_field(&mut section, name, value.as_bytes());
        section
    };
    assert_eq!(put(":status", "200"), [0xc0 | 25]);
    assert_eq!(put(":status", "421"), [0xff, 69 - 63]);
    // The first `:status` has index 24. In Huffman code, 410 has two bytes.
    assert_eq!(put(":status", "410"), b"\x5f\x09\x82\x68\x20");
    assert_eq!(put("etag", "~~"), b"\x57\x02~~", "Huffman-coded it would be longer");
    assert_eq!(put("x-ab", ""), b"\x2b\xf2\xb0\xe3\0");
}

#[test]
fn names_of_lines_are_found() {
    for field in &static_table::STATIC_TABLE {
        let name = str::from_utf8(field.name_text).unwrap();
        for value in [field.value, b"~"] {
            let mut line = Vec::new();
            put_field(&mut line, name, value);
            assert_eq!(static_name(&line), Some(field.name_text));
            assert_eq!(is_status(&line), name == ":status", "{name}: {value:?}");
        }
    }
    let mut line = Vec::new();
    put_literal_name(&mut line, b"X-Other");
    assert_eq!(line, b"\x27\0x-other");
    assert_eq!(static_name(&line), None);
    assert_eq!(static_name(&[0xff, 0xff]), None);
}

#[test]
fn every_status_is_recognized() {
    for status in 100..=999_u16 {
        let mut line = Vec::new();
        put_field(&mut line, ":status", status.to_string().as_bytes());
        assert!(is_status(&line), "{status}");
        let mut usual = Vec::new();
        put_status(&mut usual, status);
        assert_eq!(usual, line, "{status}");
    }
}
