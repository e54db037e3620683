//! Numbers in LEB128: seven bits per byte, the lowest first.

/// Appends a number.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Takes a number from the front of `rest`. Returns `None` if there is none, or if it has more than 64 bits.
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one more bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        *rest = after;
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((take_number(&mut rest), rest), (Some(number), b"".as_slice()));
        }
    }

    #[test]
    fn cut_and_long_numbers_are_refused() {
        for bytes in [b"".as_slice(), b"\x80", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", &[0x80; 11]] {
            assert_eq!(take_number(&mut &*bytes), None, "{bytes:?}");
        }
    }
}
