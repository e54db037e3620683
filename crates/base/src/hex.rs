//! Hexadecimal digits.

use std::fmt;

/// Displays bytes as lower case hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns the bytes that the text has digits for, two for each and in any letter case. Any other text gives `None`.
#[must_use]
pub fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let digits = text.as_bytes();
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_decoded_to_the_same_bytes() {
        let bytes = [0x00, 0x7f, 0x80, 0xff, 0x0a];
        assert_eq!(Hex(&bytes).to_string(), "007f80ff0a");
        assert_eq!(decode("007f80ff0a"), Some(bytes));
        assert_eq!(decode("007F80FF0A"), Some(bytes));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0", "000", "00000", "0g00", "+000", "00 0", "é00"] {
            assert_eq!(decode::<2>(text), None, "{text}");
        }
    }
}
