//! Tests for the Huffman code.

use super::*;
use proptest::prelude::*;

fn decoded(coded: &[u8]) -> Result<Vec<u8>, Invalid> {
    let mut out = b"before".to_vec();
    decode(coded, &mut out)?;
    Ok(out.split_off(6))
}

fn encoded(string: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(string, &mut out);
    assert_eq!(out.len(), encoded_bytes(string));
    out
}

/// A reference implementation. It decodes bit by bit and only uses the table of codes.
fn decode_simply(coded: &[u8]) -> Result<Vec<u8>, Invalid> {
    let mut out = Vec::new();
    let mut code = 0;
    let mut length = 0;
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
        (code, length) = (code << 1 | u32::from(bit), length + 1);
        let is_it = |symbol: &usize| LENGTHS[*symbol] == length && CODES[*symbol] == code;
        if let Some(symbol) = (0..SYMBOLS).find(is_it) {
            out.push(u8::try_from(symbol).map_err(|_| Invalid)?);
            (code, length) = (0, 0);
        }
    }
    if length < 8 && code == (1 << length) - 1 { Ok(out) } else { Err(Invalid) }
}

#[test]
fn codes_match_the_appendix() {
    // Some short and long codes from RFC 7541 appendix B.
    let known = [
        (b'0', 0x0, 5),
        (b'a', 0x3, 5),
        (b' ', 0x14, 6),
        (b':', 0x5c, 7),
        (b'Z', 0xfd, 8),
        (b'!', 0x3f8, 10),
        (b'#', 0xffa, 12),
        (b'\\', 0x7fff0, 19),
        (0x80, 0xfffe6, 20),
        (0x01, 0x7fffd8, 23),
        (0x00, 0x1ff8, 13),
        (0xc7, 0x01ff_ffec, 25),
        (0x16, 0x3fff_fffe, 30),
    ];
    for (byte, code, length) in known {
        assert_eq!((CODES[usize::from(byte)], LENGTHS[usize::from(byte)]), (code, length), "{byte:#x}");
    }
}

#[test]
fn strings_of_the_appendix() {
    // From RFC 7541 appendix C.4 and C.6.
    let known: [(&str, &[u8]); 4] = [
        ("www.example.com", b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
        ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
        ("custom-value", b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
        ("https://www.example.com", b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3"),
    ];
    for (string, coded) in known {
        assert_eq!(encoded(string.as_bytes()), coded);
        assert_eq!(decoded(coded).unwrap(), string.as_bytes());
    }
}

#[test]
fn every_byte_survives_a_round_trip() {
    for byte in 0..=u8::MAX {
        for string in [vec![byte], vec![b'a', byte, 0xff, byte, b'0'], vec![byte; 40]] {
            assert_eq!(decoded(&encoded(&string)), Ok(string));
        }
    }
}

#[test]
fn padding_is_less_than_a_byte_of_ones() {
    assert_eq!(decoded(b""), Ok(vec![]));
    // 'a' is 00011. Then come three ones.
    assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
    assert_eq!(decoded(&[0b0001_1110]), Err(Invalid));
    assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(Invalid), "a byte too long");
    assert_eq!(decoded(&[0xff]), Err(Invalid), "a whole byte of padding");
    assert_eq!(decoded(&[0xff; 4]), Err(Invalid), "EOS itself");
    assert_eq!(decoded(&[0xff; 12]), Err(Invalid));
}

proptest! {
    #[test]
    fn decoding_reverses_encoding(string in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(decoded(&encoded(&string)), Ok(string));
    }

    #[test]
    fn matches_the_reference_decoder(coded in prop::collection::vec(any::<u8>(), 0..24)) {
        prop_assert_eq!(decoded(&coded), decode_simply(&coded));
    }

    #[test]
    fn matches_the_reference_decoder_at_the_end(
        string in prop::collection::vec(b' '..b'~', 0..40),
        ending in prop::collection::vec(prop::sample::select(vec![0xff_u8, 0xfe, 0x7f, 0]), 0..6),
    ) {
        let coded = [encoded(&string), ending].concat();
        prop_assert_eq!(decoded(&coded), decode_simply(&coded));
    }
}
