//! Tests that patterns match. They come from rules of an archive.

use super::*;
use cannery_archive::{Archive, Format, NewRecord, NewRule, NewScope, ScopeEntry, Writer};

/// Matches a pattern against a path and returns the captures. Patterns have the syntax of `_redirects`.
fn captures(pattern: &str, path: &str) -> Option<Vec<String>> {
    let pieces = pattern.split_inclusive('/').flat_map(|part| {
        let (name, slash) = part.strip_suffix('/').map_or((part, ""), |name| (name, "/"));
        match name.split_once([':', '*']) {
            Some((before, after)) if name.contains('*') => vec![before, "*", after, slash],
            Some((before, _)) => vec![before, ":", slash],
            None => vec![name, slash],
        }
    });

    let pattern: Vec<Piece<'_>> = pieces
        .filter(|piece| !piece.is_empty())
        .map(|piece| match piece {
            ":" => Piece::Capture(0),
            "*" => Piece::Splat(0),
            literal => Piece::Literal(literal.as_bytes()),
        })
        .collect();

    let record = NewRecord::Rewrite { status: 200, path: Vec::new() };
    let rules = vec![NewRule { ordinal: 0, force: false, pages_only: false, pattern, record }];

    let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
    writer.scope(None, Key::ROOT, &NewScope { rules, ..NewScope::default() }).unwrap();
    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();

    let archive = Archive::from_bytes(bytes).unwrap();
    let (_, scope) = archive.scopes(None, Key::ROOT).next().unwrap().unwrap();
    let Some(Ok(ScopeEntry::Rule(rule))) = scope.rules().next() else { panic!("the scope has a rule") };

    let mut runs = Runs::default();
    if !runs.match_path(rule.pattern, path.as_bytes()).unwrap() {
        return None;
    }
    let captures = Captures::new(path.as_bytes(), &runs);
    let text = |number| String::from_utf8(captures.run(number).to_vec()).unwrap();
    Some((0..runs.count).map(text).collect())
}

#[test]
fn matching_patterns_capture() {
    let check = |pattern, path, expected: &[&str]| {
        assert_eq!(captures(pattern, path).unwrap(), expected, "{pattern} against {path}");
    };
    check("a/b", "a/b", &[]);
    check("a/b", "a/b/", &[]);
    check("*", "", &[""]);
    check("*", "a/b", &["a/b"]);
    check("a/*", "a/", &[""]);
    check(":/:", "x/y", &["x", "y"]);
    check(":/:", "x/y/", &["x", "y"]);
    check("p-:/z", "p-q/z", &["q"]);
    check(":/*", "x/y/z", &["x", "y/z"]);
    check("*.html", "a/b.html", &["a/b"]);
}

#[test]
fn other_paths_do_not_match() {
    for (pattern, path) in [
        ("a/b", "a/bc"),
        ("a/b", "a"),
        (":/:", "x"),
        (":/:", "x/"),
        (":", "x/y"),
        ("a/*", "a"),
        ("*.html", "a.htm"),
    ] {
        assert_eq!(captures(pattern, path), None, "{pattern} against {path}");
    }
}
