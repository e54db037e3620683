//! Choices of a request: content coding, ranges, and conditions.
//!
//! Each target sends a request to a real site and compares the answer with a simple implementation of the same RFC section.

use cannery_archive::Coding;
use cannery_base::date::{format_http_date, parse_http_date};
use cannery_site::{
    Answer, Body, Conditions, Fields, Method, MultipartPiece, RANGES_MAX, Request, Scratch, Single, Site,
    Values,
};

use crate::reference;
use crate::site::{LENGTHS, MODIFIED, NOW, SETS, SITE, codings_of, numbered};

/// The first byte chooses the resource; the rest are up to four lines of `Accept-Encoding`.
pub fn accept_encoding(data: &[u8]) {
    let Some((set, rest)) = data.split_first() else { return };
    let set = usize::from(*set) % (SETS - 1) + 1;
    let lines: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').take(Values::LINES_MAX).collect();
    if !lines.iter().all(|line| is_value(line)) {
        return;
    }
    let mut values = Values::NONE;
    lines.iter().try_for_each(|line| values.push(line)).expect("there is room");
    let target = format!("/{set}");
    let request = Request { accept_encoding: values, ..Request::new(Method::Get, target.as_bytes()) };
    let expected = best_coding(set, &lines);
    ask(&request, |site, answer| {
        let chosen = match answer.body {
            Body::Archive(extent) => site.archive().body(extent).ok(),
            _ => None,
        };
        assert_eq!(chosen, expected.map(|coding| coding.name().as_bytes()), "{lines:?} of {set:04b}");
        assert_eq!(answer.status, if expected.is_some() { 200 } else { 406 });
    });
}

/// Returns the best coding by RFC 9110 §12.5.3: the highest weight wins, and among equal ones the first, which is the smallest. A
/// coding that isn't listed is not acceptable, except identity, which is the last resort even if it is excluded.
fn best_coding(set: usize, lines: &[&[u8]]) -> Option<Coding> {
    let weights = reference::weights(lines);
    let weight = |coding: Coding| {
        let stated = weights.get(coding.name()).or_else(|| weights.get("*")).copied();
        let unnamed = if coding == Coding::Identity { 0.5 } else { 0.0 };
        stated.map_or(unnamed, f64::from)
    };
    let mut best = None;
    for coding in codings_of(set).filter(|coding| weight(*coding) > 0.0) {
        if best.is_none_or(|best| weight(coding) > weight(best)) {
            best = Some(coding);
        }
    }
    best.or_else(|| codings_of(set).find(|coding| *coding == Coding::Identity))
}

/// The first byte chooses the length; the rest is `Range`.
pub fn ranges(data: &[u8]) {
    let Some((length, value)) = data.split_first() else { return };
    if !is_value(value) {
        return;
    }

    let length = LENGTHS[usize::from(*length) % LENGTHS.len()];
    let target = format!("/length/{length}");
    let conditions = Conditions { any: true, range: Single::Value(value), ..Conditions::NONE };
    let request = Request { conditions, ..Request::new(Method::Get, target.as_bytes()) };
    ask(&request, |site, answer| {
        let description = || format!("{:?} of {length}: {}", String::from_utf8_lossy(value), answer.status);
        let Some((requested, elements)) = reference::requested(value, length) else {
            assert_eq!(answer.status, 200, "{}", description());
            return;
        };

        let runs = runs(&requested);
        match answer.status {
            206 => assert_eq!(sent(site, answer, length), runs, "{}", description()),
            416 => assert!(runs.is_empty(), "{}", description()),
            // Empty content has no last byte (RFC 9110 §14.1.2), and too many parts return the whole.
            200 => assert!(length == 0 || elements > RANGES_MAX || runs.len() > 1, "{}", description()),
            other => panic!("{other}: {}", description()),
        }
    });
}

/// Returns the first and last position of each run of requested bytes.
fn runs(requested: &[bool]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for at in (0u64..).zip(requested).filter(|(_, is_requested)| **is_requested).map(|(at, _)| at) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    runs
}

/// Returns the first and last position of each part of a 206, sorted, and asserts that its bytes are those of the file.
fn sent(site: &Site, answer: &Answer<'_>, length: usize) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    match (answer.body, answer.fields) {
        (Body::Archive(extent), Fields::Partial { range, .. }) => {
            assert_eq!(range.last + 1 - range.first, extent.length, "the part has the length of its range");
            extents.push(extent);
        }
        (Body::Multipart(multipart), _) => {
            assert_eq!(answer.content_length, Some(multipart.length()));
            multipart.for_each_piece(&mut |piece| {
                if let MultipartPiece::Archive(extent) = piece {
                    extents.push(extent);
                }
            });
        }
        other => panic!("a 206 has parts, not {other:?}"),
    }

    let (content, start) = (numbered(length), start_of(site, length));
    let mut sent: Vec<(u64, u64)> = Vec::new();
    for extent in extents {
        let part = site.archive().body(extent).expect("the extent is in the archive");
        let first = extent.position - start;
        let from = usize::try_from(first).expect("the position is in the file");
        assert_eq!(part, &content[from..from + part.len()], "the bytes are those of the file");
        sent.push((first, first + extent.length - 1));
    }

    sent.sort_unstable();
    sent
}

/// Returns the position of the resource of this length in the archive.
fn start_of(site: &Site, length: usize) -> u64 {
    let (target, mut scratch) = (format!("/length/{length}"), Scratch::default());
    match site.answer(&Request::new(Method::Get, target.as_bytes()), &mut scratch).body {
        Body::Archive(extent) => extent.position,
        other => panic!("{target} is {other:?}"),
    }
}

/// Each line is a field of a conditional request, selected by its first byte. `#` in a value is replaced by the entity tag of the
/// resource.
pub fn conditions(data: &[u8]) {
    let target = b"/length/300";
    let length = 300;
    let mut etag = String::new();
    ask(&Request::new(Method::Get, target), |_, answer| {
        if let Fields::Canned { validators, .. } = answer.fields {
            etag = String::from_utf8_lossy(validators.etag.expect("it has a tag")).into_owned();
        }
    });

    let lines: Vec<(u8, Vec<u8>)> = data
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split_first())
        .map(|(name, value)| (*name, fill_in(value, &etag)))
        .filter(|(_, value)| is_value(value))
        .collect();

    let mut conditions = Conditions { any: true, ..Conditions::NONE };
    for (name, value) in &lines {
        match name {
            b'm' => drop(conditions.if_match.push(value)),
            b'n' => drop(conditions.if_none_match.push(value)),
            b's' => conditions.if_modified_since.push(value),
            b'u' => conditions.if_unmodified_since.push(value),
            b'i' => conditions.if_range.push(value),
            b'r' => conditions.range.push(value),
            _ => {}
        }
    }

    let request = Request { conditions, ..Request::new(Method::Get, target) };
    let expected = expected_status(&conditions, etag.as_bytes(), length);
    ask(&request, |_, answer| match expected {
        Some(expected) => assert!(expected.contains(&answer.status), "{lines:?}: {}", answer.status),
        None => assert!([200, 206, 304, 412, 416].contains(&answer.status), "{lines:?}: {}", answer.status),
    });
}

fn fill_in(value: &[u8], etag: &str) -> Vec<u8> {
    value.iter().flat_map(|byte| if *byte == b'#' { etag.as_bytes().to_vec() } else { vec![*byte] }).collect()
}

/// Returns the possible statuses by the steps of RFC 9110 §13.2.2. Returns `None` if a list of tags is malformed, for which the RFC
/// defines no result.
fn expected_status(conditions: &Conditions<'_>, etag: &[u8], length: usize) -> Option<&'static [u16]> {
    let date = |single: Single<'_>| match single {
        Single::Value(value) => parse_http_date(value, NOW),
        Single::Absent | Single::Repeated => None,
    };

    if !conditions.if_match.is_absent() {
        if !names(&conditions.if_match, etag, |is_weak| !is_weak)? {
            return Some(&[412]);
        }
    } else if date(conditions.if_unmodified_since).is_some_and(|date| MODIFIED > date) {
        return Some(&[412]);
    }

    if !conditions.if_none_match.is_absent() {
        if names(&conditions.if_none_match, etag, |_| true)? {
            return Some(&[304]);
        }
    } else if date(conditions.if_modified_since).is_some_and(|date| MODIFIED <= date) {
        return Some(&[304]);
    }

    let holds = match conditions.if_range {
        Single::Absent => true,
        Single::Repeated => false,
        Single::Value(value) => {
            value == [b"\"", etag, b"\""].concat() || parse_http_date(value, NOW) == Some(MODIFIED)
        }
    };

    let Single::Value(range) = conditions.range else { return Some(&[200]) };
    if !holds || reference::requested(range, length).is_none() {
        return Some(&[200]);
    }
    Some(&[200, 206, 416])
}

/// Returns `true` if a list contains the tag or is `*`, and `None` if it is malformed.
fn names(values: &Values<'_>, etag: &[u8], counts: fn(bool) -> bool) -> Option<bool> {
    let mut named = false;
    for line in values.lines() {
        let is_any = line.trim_ascii() == b"*";
        named |=
            is_any || reference::tags(line)?.iter().any(|(is_weak, tag)| counts(*is_weak) && tag == etag);
    }
    Some(named)
}

/// A date that parses is the same after formatting and parsing again.
pub fn date(data: &[u8]) {
    let Some(seconds) = parse_http_date(data, NOW) else { return };
    let formatted = format_http_date(seconds);
    assert_eq!(parse_http_date(&formatted, NOW), Some(seconds), "{}", String::from_utf8_lossy(data));
}

/// Returns `true` for a valid field value (RFC 9110 §5.5), without white space at its ends.
fn is_value(value: &[u8]) -> bool {
    let is_text = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=0x7e | 0x80..));
    is_text && value.trim_ascii() == value
}

fn ask(request: &Request<'_>, look: impl FnOnce(&Site, &Answer<'_>)) {
    SITE.with(|site| {
        let mut scratch = Scratch::default();
        scratch.set_now(NOW);
        look(site, &site.answer(request, &mut scratch));
    });
}
