//! Tests the parts of request targets, and which targets we refuse.

use super::*;

fn parts(target: &str) -> Option<(Option<&str>, &str, Option<&str>)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let target = Target::parse(target.as_bytes())?;
    Some((target.authority.map(text), text(target.path), target.query.map(text)))
}

#[test]
fn parts_of_targets_are_parsed() {
    assert_eq!(parts("/a/b"), Some((None, "/a/b", None)));
    assert_eq!(parts("/a?b=c?d"), Some((None, "/a", Some("b=c?d"))));
    assert_eq!(parts("/a?"), Some((None, "/a", Some(""))));
    assert_eq!(parts("http://h"), Some((Some("h"), "/", None)));
    assert_eq!(parts("http://h:80/a?b"), Some((Some("h:80"), "/a", Some("b"))));
    assert_eq!(parts("HTTPS://h?b"), Some((Some("h"), "/", Some("b"))));
    assert_eq!(parts("//h/a"), Some((None, "//h/a", None)));
}

#[test]
fn other_forms_are_refused() {
    for target in ["", "*", "a", "http:/a", "http:///a", "ftp://h/", "h:80", "httpx://h/"] {
        assert_eq!(parts(target), None, "{target}");
    }
}

#[test]
fn target_with_fragment_is_refused() {
    for target in ["/#", "/a#b", "/a?b#c", "/a#b?c", "http://h#a", "http://h/#a", "http://h?a#b"] {
        assert_eq!(parts(target), None, "{target}");
    }
}

#[test]
fn host_has_neither_port_nor_final_dot() {
    let host = |field: &'static str| {
        Target::parse(b"/")
            .unwrap()
            .host(Some(field.as_bytes()))
            .map(|host| std::str::from_utf8(host).unwrap())
    };
    assert_eq!(host("example.com"), Some("example.com"));
    assert_eq!(host("example.com:8080"), Some("example.com"));
    assert_eq!(host("example.com."), Some("example.com"));
    assert_eq!(host("[::1]:80"), Some("[::1]"));
    assert_eq!(host(""), None);
    assert_eq!(Target::parse(b"http://a/").unwrap().host(Some(b"b")), Some(b"a".as_slice()));
}
