//! The conditions of a request held against a representation (RFC 9110 §13), in the order of §13.2.2.
//!
//! Never compares dates as strings.

use cannery_archive::ETag;

use crate::request::{Conditions, Single, Values};
use cannery_base::date::parse_http_date;

/// What conditions are held against (RFC 9110 §8.8), and what goes with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag, without its quotes, if it is sent.
    pub etag: Option<&'a [u8; ETag::BYTES]>,
    /// When the resource was last modified, in seconds since 1970, if that is known.
    pub modified: Option<u64>,
}

impl Validators<'_> {
    /// Nothing to hold a condition against.
    pub(crate) const NONE: Validators<'static> = Validators { etag: None, modified: None };
}

/// What becomes of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sent.
    Send,
    /// The client has it already: 304.
    NotModified,
    /// It is not what the client takes it for: 412.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD request at a time in seconds since 1970.
pub(crate) fn evaluate(conditions: &Conditions<'_>, held: Validators<'_>, now: u64) -> Verdict {
    if !conditions.if_match.is_absent() {
        if !match_holds(&conditions.if_match, held.etag) {
            return Verdict::Failed;
        }
    } else if let (Some(date), Some(modified)) = (date(conditions.if_unmodified_since, now), held.modified)
        && modified > date
    {
        return Verdict::Failed;
    }
    if !conditions.if_none_match.is_absent() {
        if !none_match_holds(&conditions.if_none_match, held.etag) {
            return Verdict::NotModified;
        }
    } else if let (Some(date), Some(modified)) = (date(conditions.if_modified_since, now), held.modified)
        && modified <= date
    {
        return Verdict::NotModified;
    }
    Verdict::Send
}

/// Whether a `Range` counts (RFC 9110 §13.1.5): there is no `If-Range`, or it names just this representation.
pub(crate) fn range_counts(if_range: Single<'_>, held: Validators<'_>, now: u64) -> bool {
    let value = match if_range {
        Single::Absent => return true,
        Single::Repeated => return false,
        Single::Value(value) => value,
    };
    if let [b'"', tag @ .., b'"'] = value {
        return held.etag.is_some_and(|etag| etag.as_slice() == tag);
    }
    // A date is a strong validator only where nothing can have changed within its second: §8.8.2.2.
    let is_settled = |modified: u64| modified < now;
    held.modified
        .is_some_and(|modified| is_settled(modified) && parse_http_date(value, now) == Some(modified))
}

/// The date in a field; nothing if it is absent or holds no date, since it is to be ignored then.
fn date(field: Single<'_>, now: u64) -> Option<u64> {
    match field {
        Single::Value(value) => parse_http_date(value, now),
        Single::Absent | Single::Repeated => None,
    }
}

/// `If-Match`: some tag is that of the representation by the strong comparison (RFC 9110 §8.8.3.2).
fn match_holds(if_match: &Values<'_>, etag: Option<&[u8; ETag::BYTES]>) -> bool {
    let is_this = |(weak, tag): (bool, &[u8])| !weak && etag.is_some_and(|etag| etag.as_slice() == tag);
    if_match.lines().any(|line| is_any(line) || tags(line).any(is_this))
}

/// `If-None-Match`: no tag is that of the representation by the weak comparison.
fn none_match_holds(if_none_match: &Values<'_>, etag: Option<&[u8; ETag::BYTES]>) -> bool {
    let is_this = |(_, tag): (bool, &[u8])| etag.is_some_and(|etag| etag.as_slice() == tag);
    !if_none_match.lines().any(|line| is_any(line) || tags(line).any(is_this))
}

/// Whether a line means any representation: there is one, or nobody would ask.
fn is_any(line: &[u8]) -> bool {
    line.trim_ascii() == b"*"
}

/// The opaque tags of a list, and whether each is weak.
///
/// A list that breaks the grammar ends where it does so: a tag behind that point is not believed.
fn tags(list: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', others @ ..] = rest {
            rest = others;
        }
        let weak = rest.strip_prefix(b"W/");
        let quoted = weak.unwrap_or(rest).strip_prefix(b"\"")?;
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let (tag, others) = (&quoted[..end], &quoted[end + 1..]);
        rest = others;
        Some((weak.is_some(), tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &[u8; ETag::BYTES] = b"0123456789abcdef";
    const MODIFIED: u64 = 784_111_777;
    const NOW: u64 = 1_763_700_000;

    const BOTH: Validators<'static> = Validators { etag: Some(ETAG), modified: Some(MODIFIED) };
    const SAME_DATE: Single<'static> = Single::Value(b"Sun, 06 Nov 1994 08:49:37 GMT");
    const EARLIER: Single<'static> = Single::Value(b"Sunday, 06-Nov-94 08:49:36 GMT");
    const LATER: Single<'static> = Single::Value(b"Sun Nov  6 08:49:38 1994");

    fn verdict(conditions: Conditions<'_>) -> Verdict {
        evaluate(&conditions, BOTH, NOW)
    }

    #[test]
    fn tags_match_weakly_in_any_place() {
        let holds = |value: &str| !none_match_holds(&Values::one(value.as_bytes()), Some(ETAG));
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
    }

    #[test]
    fn if_match_wants_the_strong_tag() {
        let holds = |value: &str| match_holds(&Values::one(value.as_bytes()), Some(ETAG));
        assert!(holds("*") && holds("\"0123456789abcdef\"") && holds("W/\"x\", \"0123456789abcdef\""));
        assert!(!holds("W/\"0123456789abcdef\"") && !holds("\"x\"") && !holds(""));
        assert!(!match_holds(&Values::one(b"\"0123456789abcdef\""), None), "no tag is sent: none is known");
    }

    #[test]
    fn dates_count_to_the_second() {
        let since = |if_modified_since| verdict(Conditions { if_modified_since, ..Conditions::NONE });
        assert_eq!(since(SAME_DATE), Verdict::NotModified);
        assert_eq!(since(LATER), Verdict::NotModified);
        assert_eq!(since(EARLIER), Verdict::Send);
        let until = |if_unmodified_since| verdict(Conditions { if_unmodified_since, ..Conditions::NONE });
        assert_eq!(until(SAME_DATE), Verdict::Send);
        assert_eq!(until(LATER), Verdict::Send);
        assert_eq!(until(EARLIER), Verdict::Failed);
        for ignored in [Single::Value(b"yesterday"), Single::Repeated, Single::Absent] {
            assert_eq!((since(ignored), until(ignored)), (Verdict::Send, Verdict::Send));
        }
    }

    #[test]
    fn a_resource_without_date_ignores_conditions_on_dates() {
        let conditions =
            Conditions { if_modified_since: LATER, if_unmodified_since: EARLIER, ..Conditions::NONE };
        let undated = Validators { modified: None, ..BOTH };
        assert_eq!(evaluate(&conditions, undated, NOW), Verdict::Send);
    }

    #[test]
    fn conditions_come_in_their_order() {
        let (same, other) = (Values::one(b"\"0123456789abcdef\""), Values::one(b"\"x\""));
        // A tag makes the date of its kind not count.
        let both = Conditions { if_match: same, if_unmodified_since: EARLIER, ..Conditions::NONE };
        assert_eq!(verdict(both), Verdict::Send);
        let both = Conditions { if_none_match: other, if_modified_since: SAME_DATE, ..Conditions::NONE };
        assert_eq!(verdict(both), Verdict::Send);
        // What must match comes before what must not.
        let both = Conditions { if_match: other, if_none_match: same, ..Conditions::NONE };
        assert_eq!(verdict(both), Verdict::Failed);
        let both = Conditions { if_match: same, if_none_match: same, ..Conditions::NONE };
        assert_eq!(verdict(both), Verdict::NotModified);
        let both = Conditions { if_unmodified_since: EARLIER, if_none_match: same, ..Conditions::NONE };
        assert_eq!(verdict(both), Verdict::Failed);
    }

    #[test]
    fn a_range_counts_only_for_just_this_representation() {
        let counts = |if_range| range_counts(if_range, BOTH, NOW);
        assert!(counts(Single::Absent) && counts(Single::Value(b"\"0123456789abcdef\"")));
        assert!(counts(SAME_DATE));
        for if_range in [
            Single::Value(b"W/\"0123456789abcdef\""),
            Single::Value(b"\"x\""),
            Single::Value(b"*"),
            Single::Value(b""),
            LATER,
            EARLIER,
            Single::Repeated,
        ] {
            assert!(!counts(if_range), "{if_range:?}");
        }
        assert!(!range_counts(SAME_DATE, BOTH, MODIFIED), "it may change within this second still");
    }
}
