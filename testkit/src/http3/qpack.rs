//! Field sections without a dynamic table (RFC 9204, section 4.5) because the client's settings do not allow
//! the server to use one.

use loona_hpack::Decoder;

use super::static_table::STATIC_TABLE;

/// Encodes fields as literals, without Huffman code and tables.
///
/// # Panics
///
/// Never: a name or a value of any length can be encoded.
#[must_use]
pub fn field_section<N: AsRef<str>>(fields: &[(N, N)]) -> Vec<u8> {
    // Required Insert Count and Base are 0.
    let mut section = vec![0, 0];
    for (name, value) in fields {
        let (name, value) = (name.as_ref(), value.as_ref());
        put_integer(&mut section, 0x20, 3, name.len());
        section.extend_from_slice(name.as_bytes());
        put_integer(&mut section, 0, 7, value.len());
        section.extend_from_slice(value.as_bytes());
    }
    section
}

/// Decodes a field section of the server.
///
/// # Panics
///
/// Panics if the section is malformed or refers to the dynamic table.
#[must_use]
pub fn decode(section: &[u8]) -> Vec<(String, String)> {
    let Some((&[0, 0], mut rest)) = section.split_first_chunk() else {
        panic!("a reference to the dynamic table: {section:02x?}");
    };
    let mut fields = Vec::new();
    while let Some(&first) = rest.first() {
        let field = match first {
            // Indexed field line.
            0xc0.. => {
                let (name, value) = STATIC_TABLE[take_integer(&mut rest, 6)];
                (name.to_owned(), value.to_owned())
            }
            // Literal field line with name reference.
            0x50..0x60 | 0x70..0x80 => {
                let (name, _) = STATIC_TABLE[take_integer(&mut rest, 4)];
                (name.to_owned(), take_string(&mut rest, 7))
            }
            // Literal field line with literal name.
            0x20..0x40 => (take_string(&mut rest, 3), take_string(&mut rest, 7)),
            _ => panic!("a reference to the dynamic table: {first:02x} in {section:02x?}"),
        };
        fields.push(field);
    }
    fields
}

/// Appends an integer (RFC 7541, section 5.1) with a prefix of this number of bits, after the bits in
/// `first`.
fn put_integer(bytes: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
    let prefix_max = (1 << prefix_bits) - 1;
    let low_byte = |value: usize| value.to_le_bytes()[0];
    if value < prefix_max {
        return bytes.push(first | low_byte(value));
    }
    bytes.push(first | low_byte(prefix_max));
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        bytes.push(low_byte(rest) | 0x80);
        rest >>= 7;
    }
    bytes.push(low_byte(rest));
}

/// Reads an integer with a prefix of this number of bits.
fn take_integer(bytes: &mut &[u8], prefix_bits: u32) -> usize {
    let prefix_max = (1 << prefix_bits) - 1;
    let mut value = usize::from(take_byte(bytes)) & prefix_max;
    if value < prefix_max {
        return value;
    }
    for shift in (0..).step_by(7) {
        let byte = take_byte(bytes);
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Reads a string literal, consisting of the Huffman bit, the length (with a prefix of this number of bits)
/// and the bytes.
fn take_string(bytes: &mut &[u8], prefix_bits: u32) -> String {
    let is_huffman = bytes[0] & 1 << prefix_bits != 0;
    let length = take_integer(bytes, prefix_bits);
    let (text, rest) = bytes.split_at_checked(length).expect("a complete string literal");
    *bytes = rest;
    let text = if is_huffman { decode_huffman(text) } else { text.to_vec() };
    String::from_utf8(text).unwrap()
}

/// Decodes Huffman code, which is that of HPACK, as the value of an HPACK field.
fn decode_huffman(text: &[u8]) -> Vec<u8> {
    let mut block = vec![0, 1, b'x'];
    put_integer(&mut block, 0x80, 7, text.len());
    block.extend_from_slice(text);
    let fields = Decoder::new().decode(&block).unwrap_or_else(|error| panic!("{error:?}: {text:02x?}"));
    fields.into_iter().next().expect("one field").1
}

fn take_byte(bytes: &mut &[u8]) -> u8 {
    let (first, rest) = bytes.split_first().expect("a complete field section");
    *bytes = rest;
    *first
}

#[test]
fn each_representation_is_decoded() {
    let fields = |fields: &[(&str, &str)]| -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    // RFC 9204, appendix B.1.
    let section = b"\0\0\x51\x0b/index.html";
    assert_eq!(decode(section), fields(&[(":path", "/index.html")]));

    let long = "v".repeat(1000);
    let own = [("x-name", ""), ("x-a-long-name", long.as_str())];
    assert_eq!(decode(&field_section(&own)), fields(&own));

    // An indexed field, and `www.example.com` in Huffman code (RFC 7541, appendix C.4.1).
    let huffman = b"\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let section = [b"\0\0\xd9\x50", &huffman[..]].concat();
    assert_eq!(decode(&section), fields(&[(":status", "200"), (":authority", "www.example.com")]));
}
