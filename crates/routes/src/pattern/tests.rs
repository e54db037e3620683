//! Tests the syntax: parsed patterns, and where errors are reported.

use super::*;

fn parse(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn literal(text: &str) -> Segment {
    Segment::Literal(text.as_bytes().into())
}

fn rest(name: &str) -> Segment {
    Segment::Rest(Some(name.into()))
}

#[test]
fn method_host_and_path_are_parsed() {
    for (text, method, host) in [
        ("/", None, None),
        ("GET /", Some("GET"), None),
        ("PROP-FIND \t /", Some("PROP-FIND"), None),
        ("Example.com./", None, Some("example.com")),
        ("POST [::1]/", Some("POST"), Some("[::1]")),
    ] {
        let pattern = parse(text);
        assert_eq!((pattern.method.as_deref(), pattern.host.as_deref()), (method, host), "{text}");
        assert_eq!((pattern.text.as_str(), &*pattern.segments), (text, &[Segment::Rest(None)][..]));
    }
}

#[test]
fn segments_are_parsed() {
    let capture = |name: &str| Segment::Capture(name.into());
    for (text, segments) in [
        ("/a", vec![literal("a")]),
        ("/a/", vec![literal("a"), Segment::Rest(None)]),
        ("/a/{$}", vec![literal("a"), Segment::Slash]),
        ("/{a}/{b_2}/{çé}", vec![capture("a"), capture("b_2"), capture("çé")]),
        ("/{a}/{rest...}", vec![capture("a"), rest("rest")]),
        ("/a%2Fb/caf%c3%A9/100%25", vec![literal("a/b"), literal("café"), literal("100%")]),
        ("GET /a b/%7Bc%7D/...", vec![literal("a b"), literal("{c}"), literal("...")]),
    ] {
        assert_eq!(parse(text).segments, segments, "{text}");
    }
}

#[test]
fn errors_have_column_and_problem() {
    for (text, column, problem) in [
        ("", 1, "no path"),
        ("GET", 1, "no path"),
        ("GET example.com", 5, "no path"),
        (" /a", 1, "white space"),
        ("/a b", 3, "write `%20`"),
        ("G(T /", 2, "can't contain"),
        ("get /", 1, "use upper case"),
        ("a:80/", 2, "no port"),
        ("a*b/", 2, "a host consists of"),
        ("[::1/", 1, "a host consists of"),
        ("[]/", 1, "a host consists of"),
        ("./", 1, "host is empty"),
        ("{a}/", 1, "path starts with `/`"),
        ("//", 2, "a segment is empty"),
        ("/a//b", 4, "a segment is empty"),
        ("/a/./b", 4, "`.` or `..`"),
        ("/a/%2E.", 4, "`.` or `..`"),
        ("/é{a}", 3, "whole segment"),
        ("/{a}b", 2, "ends with `}`"),
        ("/{a", 2, "ends with `}`"),
        ("/a}", 3, "`{` is missing"),
        ("/{}", 2, "no name"),
        ("/{...}", 2, "no name"),
        ("/{1a}", 3, "starts with no digit"),
        ("/{a-b}", 3, "letters, digits"),
        ("/{{a}}", 3, "letters, digits"),
        ("/{$}/", 2, "end of the path"),
        ("/{a...}/b", 2, "nothing can follow"),
        ("/é/{a}/{a}", 8, "two captures"),
        ("/{a}/{a...}", 6, "two captures"),
        ("/a?b", 3, "query"),
        ("/a#b", 3, "fragment"),
        ("/a%2", 3, "two hexadecimal digits"),
    ] {
        let error = Pattern::parse(text).expect_err(text);
        assert_eq!(error.column, column, "{error}");
        assert!(error.problem.contains(problem), "{error}");
    }

    let error = Pattern::parse("GET /a/{b").unwrap_err();
    assert_eq!(
        error.to_string(),
        "route `GET /a/{b`, column 8: a capture is a whole segment and ends with `}`"
    );
}

#[test]
fn segments_are_limited() {
    assert_eq!(parse(&"/a".repeat(SEGMENTS_MAX)).segments.len(), SEGMENTS_MAX);
    let error = Pattern::parse(&"/a".repeat(SEGMENTS_MAX + 1)).unwrap_err();
    assert!(error.problem.contains(&SEGMENTS_MAX.to_string()), "{error}");
}
