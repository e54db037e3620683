//! Compares conditions and ranges to a model that follows the steps of RFC 9110 §13.2.2.
//!
//! Instead of parsing fields, the model gets each field along with its meaning. This way, it cannot have the same bugs as our
//! parsers.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{Coding, Digest, Key, KeyBuffer, NewRecord, NewRepresentation, Origin};
use cannery_site::{Conditions, Method, Request, Scratch, Single, Site, Values};
use proptest::prelude::*;

const CONTENT: &str = "abcdefghijklmnopqrstuvwxyz";
/// Time of the file's last modification: Sun, 06 Nov 1994 08:49:37 GMT.
const MODIFIED: u64 = 784_111_777;
const NOW: u64 = MODIFIED + 1000;

/// Returns a site with two paths, only one of which has a modification time, and the entity tag without quotes.
fn site() -> (Site, String) {
    let mut writer = support::writer();
    let head = writer.head(&support::plain_head(b"Cache-Control: no-cache\r\n"));
    let digest = Digest::of(CONTENT.as_bytes());
    let body = writer.body(&digest, CONTENT.len() as u64, &mut CONTENT.as_bytes()).unwrap();
    let form = NewRepresentation { coding: Coding::Identity, etag: digest.etag(), body, head: head.unwrap() };
    for (name, modified) in [("dated", Some(MODIFIED)), ("undated", None)] {
        let representations = vec![form];
        let record = NewRecord::Resource { status: 200, origin: Origin::File, modified, representations };
        let mut buffer = KeyBuffer::new();
        writer.path(None, Key::from_file(name.as_bytes(), &mut buffer).unwrap(), &record).unwrap();
    }
    let tag = String::from_utf8(digest.etag().0.to_vec()).unwrap();
    (support::finished(writer), tag)
}

/// The meaning of a list of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tags {
    any: bool,
    /// Contains the representation's tag, by strong comparison.
    strong: bool,
    /// Contains the representation's tag, by weak comparison.
    weak: bool,
}

/// Generates lists of tags, along with their meanings. `@` is the resource's tag.
fn tags() -> impl Strategy<Value = Option<(&'static str, Tags)>> {
    let means = |any, strong, weak| Tags { any, strong, weak };
    proptest::sample::select(vec![
        None,
        Some(("*", means(true, false, false))),
        Some((" * ", means(true, false, false))),
        Some(("\"@\"", means(false, true, true))),
        Some(("W/\"@\"", means(false, false, true))),
        Some(("\"x\", \"@\"", means(false, true, true))),
        Some(("\"x\",W/\"@\" , \"y\"", means(false, false, true))),
        Some((", \"a,b\" ,, \"@\"", means(false, true, true))),
        Some(("\"x\"", means(false, false, false))),
        Some(("W/\"x\", \"\"", means(false, false, false))),
        Some(("\"@x\"", means(false, false, false))),
        Some(("@", means(false, false, false))),
    ])
}

/// A date as text and its time. `None` if it is invalid.
type Date = (&'static str, Option<u64>);

fn date() -> impl Strategy<Value = Option<Date>> {
    proptest::sample::select(vec![
        None,
        Some(("Sun, 06 Nov 1994 08:49:36 GMT", Some(MODIFIED - 1))),
        Some(("Sun, 06 Nov 1994 08:49:37 GMT", Some(MODIFIED))),
        Some(("Sunday, 06-Nov-94 08:49:37 GMT", Some(MODIFIED))),
        Some(("Sun Nov  6 08:49:37 1994", Some(MODIFIED))),
        Some(("Sunday, 06-Nov-94 08:49:38 GMT", Some(MODIFIED + 1))),
        Some(("Sun Nov  6 08:49:36 1994", Some(MODIFIED - 1))),
        Some(("Thu, 01 Jan 1970 00:00:00 GMT", Some(0))),
        Some(("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799))),
        Some(("Sun, 06 Nov 1994 08:49:37", None)),
        Some(("Sun, 31 Feb 1994 08:49:37 GMT", None)),
        Some(("1994-11-06T08:49:37Z", None)),
        Some(("0", None)),
    ])
}

/// Generates `If-Range` along with two results: the first for the resource that has a date, the second for the one without a date.
fn if_range() -> impl Strategy<Value = Option<(&'static str, [bool; 2])>> {
    proptest::sample::select(vec![
        None,
        Some(("\"@\"", [true, true])),
        Some(("W/\"@\"", [false, false])),
        Some(("\"x\"", [false, false])),
        Some(("*", [false, false])),
        Some(("Sun, 06 Nov 1994 08:49:37 GMT", [true, false])),
        Some(("Sun, 06 Nov 1994 08:49:38 GMT", [false, false])),
        Some(("Sun, 06 Nov 1994 08:49:36 GMT", [false, false])),
        Some(("yesterday", [false, false])),
    ])
}

/// Generates `Range`, along with the status it leads to.
fn range() -> impl Strategy<Value = Option<(&'static str, u16)>> {
    proptest::sample::select(vec![
        None,
        Some(("bytes=2-5", 206)),
        Some(("bytes=-3", 206)),
        Some(("bytes=26-", 416)),
        Some(("bytes=5-2", 200)),
        Some(("lines=1-2", 200)),
    ])
}

/// The meanings of all fields.
#[derive(Debug)]
struct Meaning {
    get: bool,
    modified: Option<u64>,
    if_match: Option<Tags>,
    if_unmodified_since: Option<Option<u64>>,
    if_none_match: Option<Tags>,
    if_modified_since: Option<Option<u64>>,
    if_range: Option<bool>,
    range: Option<u16>,
}

/// Returns the status. Follows the steps of RFC 9110 §13.2.2.
fn status(meaning: &Meaning) -> u16 {
    // Steps 1 and 2. Note that step 2 is skipped if the resource does not have a date or the field is invalid (§13.1.4).
    if let Some(tags) = meaning.if_match {
        if !tags.any && !tags.strong {
            return 412;
        }
    } else if let (Some(Some(since)), Some(modified)) = (meaning.if_unmodified_since, meaning.modified)
        && modified > since
    {
        return 412;
    }

    // Steps 3 and 4.
    if let Some(tags) = meaning.if_none_match {
        if tags.any || tags.weak {
            return 304;
        }
    } else if let (Some(Some(since)), Some(modified)) = (meaning.if_modified_since, meaning.modified)
        && modified <= since
    {
        return 304;
    }

    // Steps 5 and 6.
    match meaning.range {
        Some(status) if meaning.get && meaning.if_range.unwrap_or(true) => status,
        _ => 200,
    }
}

fn list(text: Option<&str>) -> Values<'_> {
    text.map_or(Values::NONE, |text| Values::one(text.as_bytes()))
}

fn single(text: Option<&str>) -> Single<'_> {
    text.map_or(Single::Absent, |text| Single::Value(text.as_bytes()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn conditions_follow_the_steps_of_the_rfc(
        dated in any::<bool>(),
        get in any::<bool>(),
        (if_match, if_none_match) in (tags(), tags()),
        (if_unmodified_since, if_modified_since) in (date(), date()),
        if_range in if_range(),
        range in range(),
    ) {
        thread_local!(static SITE: (Site, String) = site());
        SITE.with(|(site, tag)| {
            let with_tag = |text: &str| text.replace('@', tag);
            let matched = if_match.map(|(text, _)| with_tag(text));
            let unmatched = if_none_match.map(|(text, _)| with_tag(text));
            let ranged = if_range.map(|(text, _)| with_tag(text));
            let conditions = Conditions {
                any: true,
                if_match: list(matched.as_deref()),
                if_none_match: list(unmatched.as_deref()),
                if_unmodified_since: single(if_unmodified_since.map(|(text, _)| text)),
                if_modified_since: single(if_modified_since.map(|(text, _)| text)),
                if_range: single(ranged.as_deref()),
                range: single(range.map(|(text, _)| text)),
            };

            let meaning = Meaning {
                get,
                modified: dated.then_some(MODIFIED),
                if_match: if_match.map(|(_, tags)| tags),
                if_unmodified_since: if_unmodified_since.map(|(_, date)| date),
                if_none_match: if_none_match.map(|(_, tags)| tags),
                if_modified_since: if_modified_since.map(|(_, date)| date),
                if_range: if_range.map(|(_, holds)| holds[usize::from(!dated)]),
                range: range.map(|(_, status)| status),
            };

            let method = if get { Method::Get } else { Method::Head };
            let target: &[u8] = if dated { b"/dated" } else { b"/undated" };
            let mut scratch = Scratch::default();
            scratch.set_now(NOW);

            let request = Request { conditions, ..Request::new(method, target) };
            prop_assert_eq!(site.answer(&request, &mut scratch).status, status(&meaning), "{:?}", meaning);
            Ok(())
        })?;
    }
}
