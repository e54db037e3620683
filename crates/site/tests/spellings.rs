//! Every spelling of one path gets the same answer: escapes where none are needed, dots, empty segments, the
//! absolute form.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_site::{Body, Fields, Method, Request, Scratch, Site};
use proptest::prelude::*;

/// Decoded segments of paths that are answered in different ways. A byte 0 stands for an encoded slash, and an empty
/// segment at the end for a folder's slash.
const PATHS: [&[&[u8]]; 12] = [
    &[b""],
    &[b"docs", b"7.html"],
    &[b"docs", b"499.html"],
    &[b"docs", b"7.html", b""],
    &[b"docs", b"none.html"],
    &[b"docs", b""],
    &[b"app", b"old", b"a", b"b c"],
    &[b"app", b"old", "ä%?#".as_bytes(), b""],
    &[b"app", b"old", b"x\0y"],
    &[b"app", b"anything"],
    &[b"app", b"missing.js"],
    &[b"docs\x007.html"],
];

/// Random choices, taken one after the other.
struct Choices<'c>(std::iter::Cycle<std::slice::Iter<'c, u8>>);

impl Choices<'_> {
    /// One of so many.
    fn of(&mut self, count: u8) -> u8 {
        self.0.next().unwrap() % count
    }
}

/// One spelling of a path. With nothing but zeros to choose from it is the plainest one.
fn spell(segments: &[&[u8]], choices: &mut Choices<'_>) -> String {
    let mut target =
        ["", "http://example.com", "HTTP://example.com:80"][usize::from(choices.of(3))].to_owned();
    for (depth, segment) in segments.iter().enumerate() {
        let detour = ["/", "//", "/./", "/x/../", "/%2e/", "/a%20b/c/..//%2E%2e/", "/../"];
        // Above the root there is nothing to go up to; elsewhere two dots would leave the path.
        let known = if depth == 0 { 7 } else { 6 };
        target.push_str(detour[usize::from(choices.of(known))]);
        segment.iter().for_each(|byte| spell_byte(*byte, choices, &mut target));
    }
    if segments.last() == Some(&b"".as_slice()) {
        target.push_str(["", ".", "./", "/", "y/.."][usize::from(choices.of(5))]);
    }
    target
}

fn spell_byte(byte: u8, choices: &mut Choices<'_>, target: &mut String) {
    let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    let byte = if byte == 0 { b'/' } else { byte };
    match choices.of(3) {
        0 if is_plain => target.push(char::from(byte)),
        0 | 1 => target.push_str(&format!("%{byte:02X}")),
        _ => target.push_str(&format!("%{byte:02x}")),
    }
}

/// All that can be seen of an answer.
fn seen(site: &Site, method: Method, target: &str) -> String {
    let mut scratch = Scratch::default();
    let answer = site.answer(&Request::new(method, target.as_bytes()), &mut scratch);
    let mut location = Vec::new();
    if let Fields::Redirect(leads) = answer.fields {
        leads.for_each_piece(&mut |piece| location.extend_from_slice(piece));
    }
    let location = String::from_utf8(location).unwrap();
    // A built-in page shows the path as it was requested.
    let body = match answer.body {
        Body::BuiltIn(_) => "a built-in page".to_owned(),
        Body::Empty if answer.status >= 400 => "none".to_owned(),
        body => format!("{body:?} {:?}", answer.content_length),
    };
    format!("{} {:?} {body} {location}", answer.status, answer.reason)
}

#[test]
fn the_paths_are_answered_in_different_ways() {
    let site = support::site();
    let plain = |path: &[&[u8]]| spell(path, &mut Choices([0].iter().cycle()));
    assert_eq!(plain(PATHS[7]), "/app/old/%C3%A4%25%3F%23/");
    assert_eq!(plain(PATHS[8]), "/app/old/x%2Fy");
    let statuses = PATHS.map(|path| seen(&site, Method::Get, &plain(path))[..3].to_owned());
    assert_eq!(
        statuses,
        ["404", "200", "200", "308", "404", "404", "301", "301", "301", "200", "404", "404"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_spelling_of_a_path_gets_the_same_answer(
        path in 0..PATHS.len(),
        choices in proptest::collection::vec(any::<u8>(), 1..64),
        query in prop_oneof![Just(""), Just("?"), Just("?a=%2F&b=..//")],
        method in prop_oneof![Just(Method::Get), Just(Method::Head), Just(Method::Other)],
    ) {
        thread_local!(static SITE: Site = support::site());
        SITE.with(|site| {
            let plain = spell(PATHS[path], &mut Choices([0].iter().cycle())) + query;
            let other = spell(PATHS[path], &mut Choices(choices.iter().cycle())) + query;
            prop_assert_eq!(seen(site, method, &plain), seen(site, method, &other), "{} and {}", plain, other);
            Ok(())
        })?;
    }
}
