//! Evaluates conditions (RFC 9110 §13) in the order of §13.2.2.
//!
//! We need to compare times rather than text, since a date can be written in several formats.

use cannery_archive::ETag;
use cannery_base::date::parse_http_date;

use crate::request::{Conditions, Single, Values};

/// Validators of a representation (RFC 9110 §8.8), to be sent in responses and compared to conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag, without quotes. `None` if we do not send it.
    pub etag: Option<&'a [u8; ETag::BYTES]>,
    /// Time of the last modification, in seconds since 1970, or `None` if we do not know.
    pub modified: Option<u64>,
}

impl Validators<'_> {
    /// Neither validator.
    pub(crate) const NONE: Validators<'static> = Validators { etag: None, modified: None };
}

/// Outcomes of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The representation.
    Send,
    /// A 304 because the client already has the representation.
    NotModified,
    /// A 412 because a precondition is false.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD, given the time `now` in seconds since 1970.
pub(crate) fn evaluate(conditions: &Conditions<'_>, current: Validators<'_>, now: u64) -> Verdict {
    if !conditions.if_match.is_absent() {
        if !is_if_match_true(&conditions.if_match, current.etag) {
            return Verdict::Failed;
        }
    } else if let (Some(date), Some(modified)) = (date(conditions.if_unmodified_since, now), current.modified)
        && modified > date
    {
        return Verdict::Failed;
    }

    if !conditions.if_none_match.is_absent() {
        if !is_if_none_match_true(&conditions.if_none_match, current.etag) {
            return Verdict::NotModified;
        }
    } else if let (Some(date), Some(modified)) = (date(conditions.if_modified_since, now), current.modified)
        && modified <= date
    {
        return Verdict::NotModified;
    }

    Verdict::Send
}

/// Returns `true` if `Range` applies. With `If-Range`, the representation must match (RFC 9110 §13.1.5).
pub(crate) fn range_applies(if_range: Single<'_>, current: Validators<'_>, now: u64) -> bool {
    let value = match if_range {
        Single::Absent => return true,
        Single::Repeated => return false,
        Single::Value(value) => value,
    };
    if let [b'"', tag @ .., b'"'] = value {
        return current.etag.is_some_and(|etag| etag.as_slice() == tag);
    }

    // A date is only a strong validator if the resource can no longer change in the same second (§8.8.2.2).
    let is_strong = |modified: u64| modified < now;
    current
        .modified
        .is_some_and(|modified| is_strong(modified) && parse_http_date(value, now) == Some(modified))
}

/// Parses a date. Returns `None` if the field is absent or invalid, because such a field should be ignored.
fn date(field: Single<'_>, now: u64) -> Option<u64> {
    match field {
        Single::Value(value) => parse_http_date(value, now),
        Single::Absent | Single::Repeated => None,
    }
}

/// Returns `true` if `If-Match` has a tag that equals `etag` by strong comparison (RFC 9110 §8.8.3.2).
fn is_if_match_true(if_match: &Values<'_>, etag: Option<&[u8; ETag::BYTES]>) -> bool {
    let matches = |(weak, tag): (bool, &[u8])| !weak && etag.is_some_and(|etag| etag.as_slice() == tag);
    if_match.lines().any(|line| is_asterisk(line) || tags(line).any(matches))
}

/// Returns `true` if `If-None-Match` does not have a tag that equals `etag` by weak comparison.
fn is_if_none_match_true(if_none_match: &Values<'_>, etag: Option<&[u8; ETag::BYTES]>) -> bool {
    let matches = |(_, tag): (bool, &[u8])| etag.is_some_and(|etag| etag.as_slice() == tag);
    !if_none_match.lines().any(|line| is_asterisk(line) || tags(line).any(matches))
}

/// Returns `true` if the line is `*`, which matches any representation.
fn is_asterisk(line: &[u8]) -> bool {
    line.trim_ascii() == b"*"
}

/// Returns the tags of a list without quotes, each with a flag for weak tags.
///
/// Stops at the first syntax error, since tags after it would not be reliable.
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
mod tests;
