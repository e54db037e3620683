//! Integers in QPACK (RFC 9204 §4.1.1). They are the same as in HPACK, except that we decode up to 62 bits.

use super::error::Fault;
pub(super) use crate::compression::hpack::put_integer as put;

/// The largest integer (RFC 9204 §4.1.1).
const MAX: u64 = (1 << 62) - 1;

/// Decodes the integer at the start of `bytes`, which has a prefix of `bits` bits. Also returns the rest.
///
/// # Errors
/// [`Fault::Truncated`] if there have to be more bytes. [`Fault::Integer`] if there are more than 62 bits.
#[inline]
pub(super) fn decode(bytes: &[u8], bits: u32) -> Result<(u64, &[u8]), Fault> {
    let (first, rest) = bytes.split_first().ok_or(Fault::Truncated)?;
    let prefix_max = (1_u64 << bits) - 1;
    let number = u64::from(*first) & prefix_max;
    if number < prefix_max { Ok((number, rest)) } else { decode_more(number, rest) }
}

#[cold]
fn decode_more(mut number: u64, mut rest: &[u8]) -> Result<(u64, &[u8]), Fault> {
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(Fault::Truncated)?;
        rest = after;
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if number <= MAX { Ok((number, rest)) } else { Err(Fault::Integer) };
        }
    }
    Err(Fault::Integer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_end_at_62_bits() {
        let mut bytes = Vec::new();
        put(&mut bytes, 0, 8, MAX);
        assert_eq!(decode(&bytes, 8), Ok((MAX, &[][..])));
        // Add one to the last byte.
        *bytes.last_mut().unwrap() += 1;
        assert_eq!(decode(&bytes, 8), Err(Fault::Integer));
        assert_eq!(decode(&[0xff; 11], 8), Err(Fault::Integer));
        assert_eq!(decode(&[0xff; 10], 3), Err(Fault::Integer));
        assert_eq!(decode(&[0xff; 9], 3), Err(Fault::Truncated));
        assert_eq!(decode(&[], 3), Err(Fault::Truncated));
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(number in 0..=MAX, shift in 0_u32..62, bits in 3_u32..=8) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, 0, bits, number);
            prop_assert_eq!(decode(&bytes, bits), Ok((number, &[][..])));
            prop_assert_eq!(decode(&bytes[..bytes.len() - 1], bits), Err(Fault::Truncated));
        }
    }
}
