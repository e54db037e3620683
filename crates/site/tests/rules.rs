//! Compares the rule index to a linear search. They should always find the same rule.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::fmt::Write;

use cannery_archive::{Key, NewRecord, NewRule, NewScope, Piece};
use cannery_site::{Method, Reason, Request, Scratch, Site};
use proptest::prelude::*;

use support::{finished, writer};

/// A rule. The first flag means that it is forced, the second that it is only for pages.
type Sketch = (String, bool, bool);

/// Parses a pattern. `:` means a capture, and `*` means a splat.
fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let end = rest.find([':', '*']).unwrap_or(rest.len());
        if end > 0 {
            pieces.push(Piece::Literal(&rest.as_bytes()[..end]));
        }
        if let Some(sign) = rest[end..].chars().next() {
            pieces.push(if sign == ':' { Piece::Capture(0) } else { Piece::Splat(0) });
        }
        rest = rest.get(end + 1..).unwrap_or("");
    }
    pieces
}

fn site(rules: &[Sketch]) -> Site {
    let rules = (0..).zip(rules).map(|(ordinal, (pattern, force, pages_only))| NewRule {
        ordinal,
        force: *force,
        pages_only: *pages_only,
        pattern: pieces(pattern),
        record: NewRecord::Redirect {
            status: 302,
            has_query: false,
            fragment: b"",
            target: vec![Piece::Literal(b"/to")],
        },
    });
    let mut writer = writer();
    writer.scope(None, Key::ROOT, &NewScope { rules: rules.collect(), ..NewScope::default() }).unwrap();
    let site = finished(writer);
    site.archive().verify(|_| {}).unwrap();
    site
}

fn found(site: &Site, path: &str) -> Option<u32> {
    let mut scratch = Scratch::default();
    match site.answer(&Request::new(Method::Get, path.as_bytes()), &mut scratch).reason {
        Reason::Rule(ordinal) => Some(ordinal),
        _ => None,
    }
}

/// A reference implementation. It follows the documentation of patterns piece by piece.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.chars().next() {
        None => path.is_empty(),
        Some(':') => {
            let end = path.find('/').unwrap_or(path.len());
            end > 0 && matches(&pattern[1..], &path[end..])
        }
        Some('*') => path.ends_with(&pattern[1..]),
        Some(letter) => path.strip_prefix(letter).is_some_and(|rest| matches(&pattern[1..], rest)),
    }
}

fn expected(rules: &[Sketch], path: &str) -> Option<u32> {
    let path = &path[1..];
    let is_asset = path.ends_with(".js");
    let matching = |force: bool| {
        (0..).zip(rules).find(|(_, (pattern, forced, pages_only))| {
            let is_match =
                matches(pattern, path) || path.strip_suffix('/').is_some_and(|path| matches(pattern, path));
            *forced == force && is_match && !(!force && *pages_only && is_asset)
        })
    };
    matching(true).or_else(|| matching(false)).map(|(ordinal, _)| ordinal)
}

fn pattern() -> impl Strategy<Value = String> {
    "((a|b|ab|:|a:|aa:)/){0,4}(a|b|:|a:|\\*|a\\*|aa\\*|ab\\*|\\*b|a\\*a|\\*/b|\\*\\.js|)"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn index_finds_first_matching_rule(
        rules in proptest::collection::vec((pattern(), any::<bool>(), any::<bool>()), 0..150),
        paths in proptest::collection::vec("(/(a|b|ab|aa|aab|c)){0,6}(/|/a\\.js|/)", 1..20),
    ) {
        let site = site(&rules);
        for path in paths {
            let path = if path.is_empty() { "/".to_owned() } else { path };
            prop_assert_eq!(found(&site, &path), expected(&rules, &path), "{} {:?}", path, rules);
        }
    }
}

#[test]
fn rules_of_several_indexes_are_found_in_order() {
    let rules: Vec<Sketch> = (0..20_000).map(|number| (format!("{number}/*"), false, false)).collect();
    let site = site(&rules);
    assert_eq!(found(&site, "/0/x"), Some(0));
    assert_eq!(found(&site, "/16383/x"), Some(16_383));
    assert_eq!(found(&site, "/16384/"), Some(16_384));
    assert_eq!(found(&site, "/19999/x/y"), Some(19_999));
    assert_eq!(found(&site, "/20000/x"), None);
}

#[test]
fn patterns_too_large_for_an_index_are_found() {
    let mut deep = String::new();
    (0..40).for_each(|number| write!(deep, "{number}/").unwrap());
    let long = "x".repeat(300);
    let rules = [
        (format!("{deep}:"), false, false),
        (format!("{long}*"), false, false),
        (format!("*{long}"), false, false),
    ];
    let site = site(&rules);
    assert_eq!(found(&site, &format!("/{deep}a")), Some(0));
    assert_eq!(found(&site, &format!("/{long}a")), Some(1));
    assert_eq!(found(&site, &format!("/a{long}")), Some(2));
    assert_eq!(found(&site, "/a"), None);
}
