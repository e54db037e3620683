//! A field, and what one may be made of.
//!
//! Never decides what it means.

use super::name::Name;
use crate::scan::value_end;

/// A field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Which it is.
    pub name: Name,
    /// The name as it was sent.
    pub name_text: &'a [u8],
    /// The value as it was sent.
    pub value: &'a [u8],
    /// Whether name and value are what RFC 9113 §8.2.1 and §8.3 allow in a request; one that has others is malformed.
    pub is_well_formed: bool,
}

impl Field<'_> {
    /// What it counts in a table and in a list (RFC 7541 §4.1, RFC 9113 §6.5.2).
    #[must_use]
    #[inline]
    pub fn size(&self) -> usize {
        self.name_text.len() + self.value.len() + FIELD_OVERHEAD
    }
}

/// What each field counts beside its name and value (RFC 7541 §4.1).
pub(super) const FIELD_OVERHEAD: usize = 32;

/// Whether a name may stand in a request: one that we know, or a token in small letters (RFC 9113 §8.2.1). A
/// pseudo-field that we do not know may not (§8.3).
pub(super) fn is_name(name: Name, text: &[u8]) -> bool {
    name != Name::Other || (!text.is_empty() && text.iter().all(|byte| is_small_token_byte(*byte)))
}

/// RFC 9110 §5.6.2, without capital letters.
const fn is_small_token_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'^'..=b'z' | b'|' | b'~')
}

/// Whether a value may stand in a request: no control byte but the tab, and no blank at its ends (RFC 9113 §8.2.1,
/// RFC 9110 §5.5).
pub(super) fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_blank(value.first()) && !is_blank(value.last()) && value_end(value).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_in_small_letters() {
        let may = |text: &str| is_name(Name::of(text.as_bytes()), text.as_bytes());
        for text in [":path", "accept", "x-1!#$%&'*+-.^_`|~z", "te"] {
            assert!(may(text), "{text}");
        }
        for text in ["", ":", ":status", ":protocol", "Accept", "a b", "a:b", "a\0", "é", "a{", "(a)", "a/b"]
        {
            assert!(!may(text), "{text}");
        }
        let is_allowed = |byte: u8| {
            let is_token = b"!#$%&'*+-.^_`|~".contains(&byte) || byte.is_ascii_alphanumeric();
            is_token && !byte.is_ascii_uppercase()
        };
        assert!((0..=u8::MAX).all(|byte| is_small_token_byte(byte) == is_allowed(byte)));
    }

    #[test]
    fn values_hold_no_controls_and_no_blanks_at_their_ends() {
        for value in ["", "a", "a b\tc", "\u{e9}"] {
            assert!(is_value(value.as_bytes()), "{value}");
        }
        for value in [" a", "a ", "\ta", "a\t", " ", "a\r\nb", "a\0", "\u{7f}"] {
            assert!(!is_value(value.as_bytes()), "{value:?}");
        }
    }
}
