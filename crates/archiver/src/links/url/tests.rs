//! Unit tests of URLs in links.

use super::*;

fn joined(reference: &str) -> Option<(Option<String>, String)> {
    let base = Url { host: None, path: "/docs/guide/index.html".to_owned() };
    base.join(reference.as_bytes()).map(|url| (url.host.map(String::from), url.path))
}

#[test]
fn references_are_joined_as_in_browsers() {
    for (reference, path) in [
        ("a.html", "/docs/guide/a.html"),
        (" a.html\n", "/docs/guide/a.html"),
        ("a.html?b#c", "/docs/guide/a.html"),
        ("./", "/docs/guide/"),
        (".", "/docs/guide/"),
        ("..", "/docs/"),
        ("../../../..", "/"),
        ("../x/./y", "/docs/x/y"),
        ("%2e%2E/x", "/docs/x"),
        ("/", "/"),
        ("/a//b", "/a//b"),
        ("\\a\\b", "/a/b"),
        ("a b\u{e9}.html", "/docs/guide/a%20b%C3%A9.html"),
        ("a%20b", "/docs/guide/a%20b"),
        ("v1:2/a", "/docs/guide/v1:2/a"),
    ] {
        let reference =
            if reference.starts_with("v1") { format!("./{reference}") } else { reference.to_owned() };
        assert_eq!(joined(&reference), Some((None, path.to_owned())), "{reference}");
    }
}

#[test]
fn absolute_references_name_a_host() {
    for reference in ["//Example.com/a", "https://example.com/a", "HTTP://example.com.:80/a?b"] {
        let expected = Some((Some("example.com".to_owned()), "/a".to_owned()));
        assert_eq!(joined(reference), expected, "{reference}");
    }
    assert_eq!(joined("https://example.com"), Some((Some("example.com".to_owned()), "/".to_owned())));
}

#[test]
fn other_schemes_and_the_document_itself_are_no_links() {
    for reference in [
        "",
        "#top",
        "?page=2",
        "mailto:a@b",
        "data:,x",
        "javascript:void(0)",
        "https://u@h/",
        "http://h:81/",
        "https:a",
    ] {
        assert_eq!(joined(reference), None, "{reference}");
    }
}
