//! Integers in HPACK (RFC 7541 §5.1). They start with some bits of a byte, followed by more bytes if necessary.
//!
//! We decode up to four more bytes. This is enough, because all integers that we accept are less than 2^28.

use super::error::DecodeError;

/// Maximum number of additional bytes.
const MORE_BYTES_MAX: u32 = 4;

/// Decodes the integer at the start of `block`, which has a prefix of `bits` bits. Also returns the rest.
#[inline]
pub(super) fn decode(block: &[u8], bits: u32) -> Result<(usize, &[u8]), DecodeError> {
    let (first, rest) = block.split_first().ok_or(DecodeError::Truncated)?;
    let prefix_max = (1_usize << bits) - 1;
    let number = usize::from(*first) & prefix_max;
    if number < prefix_max { Ok((number, rest)) } else { decode_more(number, rest) }
}

#[cold]
fn decode_more(mut number: usize, mut rest: &[u8]) -> Result<(usize, &[u8]), DecodeError> {
    for place in 0..MORE_BYTES_MAX {
        let (byte, after) = rest.split_first().ok_or(DecodeError::Truncated)?;
        rest = after;
        number += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((number, rest));
        }
    }
    Err(DecodeError::Number)
}

/// Appends an integer with a prefix of `bits` bits. The other bits of the first byte are from `form`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, form: u8, bits: u32, number: u64) {
    let prefix_max = (1_u64 << bits) - 1;
    let byte = |number: u64| number.to_le_bytes()[0];
    if number < prefix_max {
        return out.push(form | byte(number));
    }

    out.push(form | byte(prefix_max));
    let mut rest = number - prefix_max;
    while rest >= 0x80 {
        out.push(byte(rest | 0x80));
        rest >>= 7;
    }
    out.push(byte(rest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put_to_vec(form: u8, bits: u32, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, form, bits, number);
        out
    }

    #[test]
    fn integers_of_the_appendix() {
        // From RFC 7541 appendix C.1.
        assert_eq!(put_to_vec(0b1010_0000, 5, 10), [0b1010_1010]);
        assert_eq!(put_to_vec(0, 5, 1337), [31, 154, 10]);
        assert_eq!(put_to_vec(0, 8, 42), [42]);
        assert_eq!(decode(&[0b1110_1010, 1], 5), Ok((10, [1].as_slice())));
        assert_eq!(decode(&[31, 154, 10], 5), Ok((1337, [].as_slice())));
    }

    #[test]
    fn truncated_and_unbounded_integers_are_refused() {
        assert_eq!(decode(&[], 7), Err(DecodeError::Truncated));
        assert_eq!(decode(&[0x3f], 5), Err(DecodeError::Truncated));
        assert_eq!(decode(&[0x3f, 0x80, 0x80], 5), Err(DecodeError::Truncated));
        assert_eq!(decode(&[0x3f, 0x80, 0x80, 0x80, 0x80, 0], 5), Err(DecodeError::Number));
        assert_eq!(decode(&[0x3f, 0xff, 0xff, 0xff, 0x7f], 5), Ok((31 + (1 << 28) - 1, [].as_slice())));
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(number in 0_usize..1 << 28, bits in 1_u32..=8) {
            let put = put_to_vec(0, bits, number as u64);
            prop_assert_eq!(decode(&put, bits), Ok((number, [].as_slice())));
        }
    }
}
