//! `If-None-Match` (RFC 9110 §13.1.2) held against an entity tag.
//!
//! Never compares dates as strings: the conditions on dates have their place here too.

use cannery_archive::ETag;

use crate::request::Values;

/// Whether the client holds the representation with this tag already: the answer is then 304.
#[inline]
pub(crate) fn none_match_holds(if_none_match: &Values<'_>, etag: &[u8; ETag::BYTES]) -> bool {
    if if_none_match.is_absent() {
        return false;
    }
    if_none_match.lines().any(|line| line.trim_ascii() == b"*" || tags(line).any(|tag| tag == etag))
}

/// The opaque tags of a list, weak or strong: the comparison is the weak one (RFC 9110 §8.8.3.2).
///
/// A list that breaks the grammar ends where it does so: a tag behind that point is not believed.
fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', others @ ..] = rest {
            rest = others;
        }
        let quoted = rest.strip_prefix(b"W/").unwrap_or(rest).strip_prefix(b"\"")?;
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let (tag, others) = (&quoted[..end], &quoted[end + 1..]);
        rest = others;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_weakly_in_any_place() {
        let etag = b"0123456789abcdef";
        let holds = |value: &str| none_match_holds(&Values::one(value.as_bytes()), etag);
        for value in [
            "*",
            " * ",
            "\"0123456789abcdef\"",
            "W/\"0123456789abcdef\"",
            "\"x\", \"0123456789abcdef\"",
            "\"a,b\",W/\"c\" , \"0123456789abcdef\"",
        ] {
            assert!(holds(value), "{value}");
        }
        for value in [
            "",
            "\"x\"",
            "0123456789abcdef",
            "\"0123456789abcdef",
            "w/\"0123456789abcdef\"",
            "\"0123456789ABCDEF\"",
            "x \"0123456789abcdef\"",
            "\"0123456789abcde\"",
        ] {
            assert!(!holds(value), "{value}");
        }
        assert!(!none_match_holds(&Values::NONE, etag));
    }
}
