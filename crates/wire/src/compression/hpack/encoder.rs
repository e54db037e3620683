//! Encodes fields without using the dynamic table. The result is therefore valid on all connections.
//!
//! Used by the archiver, and by the server for fields that are not known in advance.

use super::integer;
use super::static_table;
use crate::compression::huffman;

/// Appends a field: the index if it is in the static table, and otherwise a literal without indexing (RFC 7541 §6.1, §6.2.2). The
/// name must be in lower case.
pub fn put_field(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "RFC 9113 §8.2.1: {name}");
    match static_table::find(name, value) {
        (Some(index), _) => integer::put(block, 0x80, 7, index.into()),
        (None, Some(index)) => {
            integer::put(block, 0, 4, index.into());
            put_string(block, 0, 7, value);
        }
        (None, None) => {
            block.push(0);
            put_string(block, 0, 7, name.as_bytes());
            put_string(block, 0, 7, value);
        }
    }
}

/// Appends a string, using Huffman code if that is shorter (RFC 7541 §5.2, RFC 9204 §4.1.2). The length has a prefix of `bits`
/// bits, preceded by the Huffman bit. All bits before that are from `form`.
pub(crate) fn put_string(out: &mut Vec<u8>, form: u8, bits: u32, string: &[u8]) {
    let coded_bytes = huffman::encoded_bytes(string);
    if coded_bytes < string.len() {
        integer::put(out, form | 1 << bits, bits, coded_bytes as u64);
        huffman::encode(string, out);
    } else {
        integer::put(out, form, bits, string.len() as u64);
        out.extend_from_slice(string);
    }
}

/// Appends the length of a string that is not Huffman-coded.
#[inline]
pub(crate) fn put_text_length(block: &mut Vec<u8>, length: usize) {
    integer::put(block, 0, 7, length as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_take_the_shortest_form() {
        let put = |name: &str, value: &str| {
            let mut block = Vec::new();
            put_field(&mut block, name, value.as_bytes());
            block
        };
        assert_eq!(put(":status", "200"), [0x88]);
        assert_eq!(put(":status", "410"), b"\x08\x82\x68\x20");
        assert_eq!(put("date", "0"), b"\x0f\x12\x010", "Huffman-coded it would be as long");
        assert_eq!(put("age", "~~"), b"\x0f\x06\x02~~", "Huffman-coded it would be longer");
        assert_eq!(put("x-ab", ""), b"\0\x83\xf2\xb0\xe3\0");
    }
}
