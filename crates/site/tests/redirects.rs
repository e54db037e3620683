//! Tests that there are no open redirects: if the target is a path, every request should stay on the same
//! host.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{Key, KeyBuffer, NewRecord, NewRule, NewScope, Piece};
use cannery_site::{Fields, Method, Request, Scratch, Site};
use proptest::prelude::*;

use support::{finished, writer};

/// Returns a site with a single rule that leads from `pattern` to `target`.
fn site(pattern: Vec<Piece<'_>>, target: Vec<Piece<'_>>) -> Site {
    let record = NewRecord::Redirect { status: 302, has_query: false, fragment: b"", target };
    let rules = vec![NewRule { ordinal: 0, force: false, pages_only: false, pattern, record }];
    let mut writer = writer();
    writer.scope(None, Key::ROOT, &NewScope { rules, ..NewScope::default() }).unwrap();
    finished(writer)
}

fn location(site: &Site, target: &str) -> Option<String> {
    let mut scratch = Scratch::default();
    let request = Request::new(Method::Get, target.as_bytes());
    let Fields::Redirect(location) = site.answer(&request, &mut scratch).fields else { return None };
    let mut bytes = Vec::new();
    location.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
    assert_eq!(bytes.len(), location.length(), "{target}");
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn empty_capture_names_no_host() {
    let splat_then_capture =
        || vec![Piece::Literal(b"/"), Piece::Splat(1), Piece::Literal(b"/"), Piece::Capture(0)];
    let pattern = || vec![Piece::Literal(b"x/"), Piece::Capture(0), Piece::Literal(b"/"), Piece::Splat(1)];
    let site_of = |target| site(pattern(), target);
    assert_eq!(location(&site_of(splat_then_capture()), "/x/evil.com/").as_deref(), Some("/evil.com"));
    assert_eq!(location(&site_of(splat_then_capture()), "/x/evil.com/a").as_deref(), Some("/a/evil.com"));
    let page = vec![Piece::Literal(b"/"), Piece::Splat(1), Piece::Literal(b"/page")];
    assert_eq!(location(&site_of(page), "/x/a/").as_deref(), Some("/page"));
    let slash = vec![Piece::Literal(b"/"), Piece::Splat(1), Piece::Literal(b"/")];
    assert_eq!(location(&site_of(slash), "/x/a/").as_deref(), Some("/"));
}

#[test]
fn capture_with_leading_slash_names_no_host() {
    let target = || vec![Piece::Literal(b"/"), Piece::Splat(0)];
    let site = site(vec![Piece::Literal(b"x"), Piece::Splat(0)], target());
    assert_eq!(location(&site, "/x/evil.com").as_deref(), Some("/evil.com"));
    assert_eq!(location(&site, "/x%2fevil.com").as_deref(), Some("/%2Fevil.com"));
    assert_eq!(location(&site, "/x%5cevil.com").as_deref(), Some("/%5Cevil.com"));
    assert_eq!(location(&site, "/x").as_deref(), Some("/"));
}

#[test]
fn url_of_the_author_is_kept() {
    let to = |target| {
        site(vec![Piece::Literal(b"x/"), Piece::Splat(0)], vec![Piece::Literal(target), Piece::Splat(0)])
    };
    assert_eq!(location(&to(b"//other.example/"), "/x/a").as_deref(), Some("//other.example/a"));
    assert_eq!(location(&to(b"https://other.example/"), "/x/").as_deref(), Some("https://other.example/"));
    assert_eq!(location(&to(b"/a//"), "/x/b").as_deref(), Some("/a//b"));
}

fn piece() -> impl Strategy<Value = (u8, &'static [u8])> {
    let literals: [&[u8]; 7] = [b"/", b"a", b"/a/", b"a/", b"/a", b"%2F", b"?q="];
    prop_oneof![(Just(0u8), proptest::sample::select(literals.to_vec())), (1u8..4, Just(b"".as_slice())),]
}

proptest! {
    #[test]
    fn path_target_never_names_a_host(
        pattern in proptest::collection::vec(0usize..6, 1..5),
        target in proptest::collection::vec(piece(), 0..6),
        path in "/([ae./\\\\]|%2[fF]|%5[cC]|%09|%2[eE]){0,12}",
    ) {
        // Build a pattern in the way the archiver would: captures between slashes, and a splat at the end.
        let mut captures = 0;
        let mut pieces = Vec::new();
        for choice in pattern {
            match choice {
                0..=2 => pieces.push(Piece::Literal([b"a".as_slice(), b"a/", b"/"][choice])),
                3..=4 => { pieces.extend([Piece::Capture(captures), Piece::Literal(b"/")]); captures += 1; }
                _ => { pieces.push(Piece::Splat(captures)); break; }
            }
        }

        let target: Vec<Piece<'_>> = std::iter::once(Piece::Literal(b"/"))
            .chain(target.iter().map(|(kind, literal)| match kind {
                0 => Piece::Literal(literal),
                number => Piece::Capture(number - 1),
            }))
            .collect();

        if let Some(location) = location(&site(pieces, target), &path) {
            let is_path = location.starts_with('/') && !location[1..].starts_with(['/', '\\']);
            prop_assert!(is_path, "{path} redirects to {location}");
        }
    }

    #[test]
    fn slash_redirect_never_names_a_host(path in "/([ae./\\\\]|%2[fF]|%5[cC]|%09|%2[eE]){0,12}") {
        let mut buffer = KeyBuffer::new();
        let Ok(key) = Key::from_target(path.as_bytes(), &mut buffer) else { return Ok(()) };
        let bytes = key.bytes();
        let other = bytes.strip_suffix(b"/").map_or_else(|| [bytes, b"/"].concat(), <[u8]>::to_vec);
        let record = NewRecord::Rewrite { status: 200, path: Vec::new() };
        let mut writer = writer();
        let mut other_buffer = KeyBuffer::new();
        let Ok(other) = Key::from_parts([other.get(1..).unwrap_or_default()], &mut other_buffer) else { return Ok(()) };
        writer.path(None, other, &record).unwrap();
        if let Some(location) = location(&finished(writer), &path) {
            prop_assert!(location.starts_with('/') && !location[1..].starts_with(['/', '\\']), "{location}");
        }
    }
}
