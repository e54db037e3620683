//! Percent-encoding (RFC 3986 §2.1) for rule files and listings.
//!
//! Requests are decoded in `cannery_archive`, where keys are defined as well.

use std::fmt::Write;

use crate::ground::rule_error::RuleError;

/// Returns `true` for unreserved characters (RFC 3986 §2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Percent-encodes all bytes for which `keep` returns `false`.
pub(crate) fn percent_encode(bytes: &[u8], keep: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii() && keep(byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Percent-decodes a path. Requests must not contain encoded separators or NUL, so we reject them.
pub(crate) fn percent_decode(text: &[u8]) -> Result<Vec<u8>, RuleError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let byte = escaped_byte(tail).ok_or_else(bad_escape)?;
        if byte == b'/' || byte == 0 {
            return Err(RuleError::new("bad-escape", "%2F and %00 cannot be part of a path"));
        }
        bytes.push(byte);
        rest = &tail[2..];
    }
    Ok(bytes)
}

/// Decodes the two hexadecimal digits at the start of `text`.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digit = |index: usize| char::from(*text.get(index)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

fn bad_escape() -> RuleError {
    RuleError::new("bad-escape", "a `%` must be followed by two hex digits; write a literal one as %25")
}

/// Encodes text for a `Location` field, percent-encoding those bytes that are not allowed in a URL.
pub(super) fn encode_for_location(text: &str) -> Result<String, RuleError> {
    let is_sound = text
        .bytes()
        .enumerate()
        .all(|(at, byte)| byte != b'%' || escaped_byte(&text.as_bytes()[at + 1..]).is_some());
    if !is_sound {
        return Err(bad_escape());
    }
    Ok(percent_encode(text.as_bytes(), |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_name_survives_encoding_and_decoding(name in proptest::collection::vec(1u8.., 0..40)) {
            let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'/').collect();
            let encoded = percent_encode(&name, is_unreserved);
            prop_assert_eq!(percent_decode(encoded.as_bytes()).unwrap(), name);
        }
    }
}
