//! Lists patterns that conflict, and patterns that do not.

use super::*;

fn between(new: &str, old: &str) -> Option<Conflict> {
    let parse = |text| Pattern::parse(text).unwrap_or_else(|error| panic!("{error}"));
    Conflict::between(&parse(new), &parse(old))
}

#[test]
fn conflicting_patterns_have_an_example() {
    for (new, old, method, path) in [
        ("/a", "/a", "GET", "/a"),
        ("/{a}", "/{b}", "GET", "/a"),
        ("/a/", "/a/{rest...}", "GET", "/a/"),
        ("/%61%2f", "/a%2F", "GET", "/a%2F"),
        ("/{a}/b", "/a/{b}", "GET", "/a/b"),
        ("/{a}/b/", "/a/{b}/{c...}", "GET", "/a/b/"),
        ("/{a}/b", "/a/{b...}", "GET", "/a/b"),
        ("/{a}/{$}", "/a/", "GET", "/a/"),
        ("/{a}/b/{c}", "/a/", "GET", "/a/b/c"),
        ("PUT /{a}/%20", "PUT /%3F/{b}", "PUT", "/%3F/%20"),
        ("GET /", "/index.html", "GET", "/index.html"),
        ("/index.html", "GET /", "GET", "/index.html"),
        ("HEAD /", "GET /a", "HEAD", "/a"),
        ("GET /a", "HEAD /{a}", "HEAD", "/a"),
        ("a.example/", "A.EXAMPLE./", "GET", "/"),
    ] {
        let conflict = between(new, old).unwrap_or_else(|| panic!("{new} and {old} don't conflict"));

        assert_eq!(conflict.example(), (method, path), "{conflict}");
    }
}

#[test]
fn disjoint_or_nested_patterns_do_not_conflict() {
    for (left, right) in [
        ("/a", "/b"),
        ("/a", "/a/"),
        ("/a", "/a/{$}"),
        ("/{a}", "/{$}"),
        ("/a/{b}", "/a/{$}"),
        ("/%2F", "/{$}"),
        ("/a", "/{a}"),
        ("/a/b", "/{a}/{b}"),
        ("/a/{b}", "/{a...}"),
        ("/a/", "/"),
        ("/{$}", "/"),
        ("/{a}/", "/a/{b}/{c...}"),
        ("/a/b/{$}", "/a/{b...}"),
        ("/{a}/x", "/{a}/y"),
        ("GET /a", "POST /a"),
        ("GET /a", "HEAD /a"),
        ("GET /{a}/b", "POST /a/{b}"),
        ("GET /a", "/a"),
        ("GET /a", "/"),
        ("HEAD /a", "GET /"),
        ("a.example/{a}/b", "/a/{b}"),
        ("a.example/{a}/b", "b.example/a/{b}"),
    ] {
        assert_eq!(between(left, right), None, "{left} and {right}");
        assert_eq!(between(right, left), None, "{right} and {left}");
    }
}

#[test]
fn messages_name_both_patterns_and_the_cause() {
    for (new, old, message) in [
        ("/{a}", "/{b}", "both match GET /a, and all requests that either matches; remove one of them"),
        (
            "/{a}/b",
            "/a/{b}",
            "both match GET /a/b, and each matches paths that the other doesn't; make one more specific",
        ),
        (
            "GET /",
            "/a",
            "both match GET /a, and the former has fewer methods, the latter fewer paths; add a method to `/a`",
        ),
        (
            "/a",
            "GET /",
            "both match GET /a, and the former has fewer paths, the latter fewer methods; add a method to `/a`",
        ),
    ] {
        let conflict = between(new, old).unwrap();

        assert_eq!(conflict.to_string(), format!("route `{new}` conflicts with `{old}`: {message}"));
    }
}
