//! Decoded fields, and which names and values are valid in HTTP/2.

use super::name::Name;
use crate::ground::scan;

/// A decoded field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, if requests need it.
    pub name: Name,
    /// The name as sent.
    pub name_text: &'a [u8],
    /// The value as sent.
    pub value: &'a [u8],
    /// Whether this name and value are allowed in a request (RFC 9113 §8.2.1 and §8.3). Otherwise, the request is malformed.
    pub is_well_formed: bool,
}

impl Field<'_> {
    /// Returns the size, in bytes, as it counts for tables and for the limits of field lists (RFC 7541 §4.1, RFC 9113 §6.5.2).
    #[must_use]
    #[inline]
    pub fn size(&self) -> usize {
        self.name_text.len() + self.value.len() + FIELD_OVERHEAD
    }
}

/// Overhead of a field, in bytes, in addition to its name and value (RFC 7541 §4.1).
pub(crate) const FIELD_OVERHEAD: usize = 32;

/// Returns `true` if requests may have this field. An unknown name must be a token in lower case (RFC 9113 §8.2.1); unknown
/// pseudo-header fields are not allowed (§8.3).
pub(crate) fn is_name(name: Name, text: &[u8]) -> bool {
    name != Name::Other || (!text.is_empty() && text.iter().all(|byte| is_lowercase_token_byte(*byte)))
}

/// Returns `true` if tokens may contain this byte (RFC 9110 §5.6.2), except for upper case letters.
const fn is_lowercase_token_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'^'..=b'z' | b'|' | b'~')
}

/// Returns `true` if requests may have this field value. Neither control characters (except tabs) nor white space at the start or
/// end are allowed (RFC 9113 §8.2.1, RFC 9110 §5.5).
pub(crate) fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_blank(value.first()) && !is_blank(value.last()) && scan::is_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lowercase_tokens() {
        let is_allowed_name = |text: &str| is_name(Name::from_bytes(text.as_bytes()), text.as_bytes());
        for text in [":path", "accept", "x-1!#$%&'*+-.^_`|~z", "te"] {
            assert!(is_allowed_name(text), "{text}");
        }

        for text in ["", ":", ":status", ":protocol", "Accept", "a b", "a:b", "a\0", "é", "a{", "(a)", "a/b"]
        {
            assert!(!is_allowed_name(text), "{text}");
        }

        let is_allowed = |byte: u8| {
            let is_token = b"!#$%&'*+-.^_`|~".contains(&byte) || byte.is_ascii_alphanumeric();
            is_token && !byte.is_ascii_uppercase()
        };
        assert!((0..=u8::MAX).all(|byte| is_lowercase_token_byte(byte) == is_allowed(byte)));
    }

    #[test]
    fn values_have_no_control_bytes_and_no_outer_spaces() {
        for value in ["", "a", "a b\tc", "\u{e9}"] {
            assert!(is_value(value.as_bytes()), "{value}");
        }
        for value in [" a", "a ", "\ta", "a\t", " ", "a\r\nb", "a\0", "\u{7f}"] {
            assert!(!is_value(value.as_bytes()), "{value:?}");
        }
    }
}
