//! Stateless QPACK encoder: field lines that need no dynamic table, so they are valid on every connection.

use super::static_table;
use crate::hpack::{put_integer, put_string};

/// Appends a field line: as an index if the static table has it, otherwise as a literal (RFC 9204 §4.5.2, §4.5.4, §4.5.6). The
/// name must be in lower case.
pub fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "RFC 9114 §4.2: {name}");
    match static_table::find(name, value) {
        (Some(index), _) => put_integer(section, 0xc0, 6, index.into()),
        (None, Some(index)) => {
            put_integer(section, 0x50, 4, index.into());
            put_string(section, 0, 7, value);
        }
        (None, None) => {
            put_string(section, 0x20, 3, name.as_bytes());
            put_string(section, 0, 7, value);
        }
    }
}

#[cfg(test)]
mod tests {
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
        // `:status` is found first at index 24, and 410 takes two bytes in the Huffman code.
        assert_eq!(put(":status", "410"), b"\x5f\x09\x82\x68\x20");
        assert_eq!(put("etag", "~~"), b"\x57\x02~~", "Huffman-coded it would be longer");
        assert_eq!(put("x-ab", ""), b"\x2b\xf2\xb0\xe3\0");
    }
}
