//! Tests that equivalent targets get the same answer, e.g. those with unnecessary escapes, dot segments, empty segments, or
//! absolute form.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_site::{Body, Fields, Method, Request, Scratch, Site};
use proptest::prelude::*;

/// Decoded segments of paths that lead to different kinds of answers. We use a 0 byte for an encoded slash. If the last segment is
/// empty, there is a slash at the end, so this is a directory.
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

/// A sequence of random choices.
struct Choices<'c>(std::iter::Cycle<std::slice::Iter<'c, u8>>);

impl Choices<'_> {
    /// Returns a number below `count`.
    fn next(&mut self, count: u8) -> u8 {
        self.0.next().unwrap() % count
    }
}

/// Encodes a path. If all choices are 0, it is in normal form.
fn encode(segments: &[&[u8]], choices: &mut Choices<'_>) -> String {
    let mut target =
        ["", "http://example.com", "HTTP://example.com:80"][usize::from(choices.next(3))].to_owned();
    for (depth, segment) in segments.iter().enumerate() {
        let detour = ["/", "//", "/./", "/x/../", "/%2e/", "/a%20b/c/..//%2E%2e/", "/../"];
        // At the root, `/../` doesn't have an effect. Anywhere else, it would change the path.
        let count = if depth == 0 { 7 } else { 6 };
        target.push_str(detour[usize::from(choices.next(count))]);
        for byte in *segment {
            encode_byte(*byte, choices, &mut target);
        }
    }
    if segments.last() == Some(&b"".as_slice()) {
        target.push_str(["", ".", "./", "/", "y/.."][usize::from(choices.next(5))]);
    }
    target
}

fn encode_byte(byte: u8, choices: &mut Choices<'_>, target: &mut String) {
    let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    let byte = if byte == 0 { b'/' } else { byte };
    match choices.next(3) {
        0 if is_plain => target.push(char::from(byte)),
        0 | 1 => target.push_str(&format!("%{byte:02X}")),
        _ => target.push_str(&format!("%{byte:02x}")),
    }
}

/// Describes an answer.
fn describe(site: &Site, method: Method, target: &str) -> String {
    let mut scratch = Scratch::default();
    let answer = site.answer(&Request::new(method, target.as_bytes()), &mut scratch);
    let mut location = Vec::new();
    if let Fields::Redirect(redirect) = answer.fields {
        redirect.for_each_piece(&mut |piece| location.extend_from_slice(piece));
    }
    let location = String::from_utf8(location).unwrap();
    // Built-in pages show the path as requested.
    let body = match answer.body {
        Body::BuiltIn(_) => "a built-in page".to_owned(),
        Body::Empty if answer.status >= 400 => "none".to_owned(),
        body => format!("{body:?} {:?}", answer.content_length),
    };
    format!("{} {:?} {body} {location}", answer.status, answer.reason)
}

#[test]
fn paths_have_different_answers() {
    let site = support::site();
    let plain = |path: &[&[u8]]| encode(path, &mut Choices([0].iter().cycle()));
    assert_eq!(plain(PATHS[7]), "/app/old/%C3%A4%25%3F%23/");
    assert_eq!(plain(PATHS[8]), "/app/old/x%2Fy");
    let statuses = PATHS.map(|path| describe(&site, Method::Get, &plain(path))[..3].to_owned());
    assert_eq!(
        statuses,
        ["404", "200", "200", "308", "404", "404", "301", "301", "301", "200", "404", "404"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equivalent_paths_get_the_same_answer(
        path in 0..PATHS.len(),
        choices in proptest::collection::vec(any::<u8>(), 1..64),
        query in prop_oneof![Just(""), Just("?"), Just("?a=%2F&b=..//")],
        method in prop_oneof![Just(Method::Get), Just(Method::Head), Just(Method::Other)],
    ) {
        thread_local!(static SITE: Site = support::site());
        SITE.with(|site| {
            let plain = encode(PATHS[path], &mut Choices([0].iter().cycle())) + query;
            let other = encode(PATHS[path], &mut Choices(choices.iter().cycle())) + query;
            prop_assert_eq!(describe(site, method, &plain), describe(site, method, &other), "{} and {}", plain, other);
            Ok(())
        })?;
    }
}
