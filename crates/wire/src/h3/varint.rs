//! QUIC variable-length integers (RFC 9000 §16).

/// The largest integer.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// Parses an integer at the front of `bytes` and returns it with the rest, or `None` when it is incomplete.
/// Note that integers may be encoded longer than necessary.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    if first < 0x40 {
        return Some((first.into(), &bytes[1..]));
    }
    let (encoded, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let number = encoded.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let length_bits = 8 * encoded.len() - 2;
    Some((number & ((1 << length_bits) - 1), rest))
}

/// Appends an integer in its shortest form.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, number: u64) {
    debug_assert!(number <= MAX, "{number}");
    match number {
        0..0x40 => out.push(number.to_be_bytes()[7]),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | number).to_be_bytes()[6..]),
        0x4000..0x4000_0000 => out.extend_from_slice(&(0x8000_0000 | number).to_be_bytes()[4..]),
        _ => out.extend_from_slice(&(0xc000_0000_0000_0000 | number).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_of_the_appendix() {
        // RFC 9000 appendix A.1.
        for (bytes, number) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((number, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn parsing_reverses_encoding(number in 0..=MAX, shift in 0_u32..62, after: u8) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            bytes.push(after);
            prop_assert_eq!(read(&bytes), Some((number, &[after][..])));
        }
    }
}
