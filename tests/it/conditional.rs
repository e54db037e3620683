//! Conditional requests (RFC 9110, section 13).

use crate::harness::{Response, Server, pages, serve};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Serves files with `Last-Modified`.
fn dated() -> Server {
    serve(&pages(&[("a.txt", "content"), ("empty", "")]), &["--last-modified", "@784111777"])
}

fn status(server: &Server, lines: &str) -> u16 {
    server.request("GET", "/a.txt", lines).status
}

fn etag(response: &Response) -> String {
    response.field("ETag").unwrap().to_owned()
}

#[test]
fn last_modified_is_sent_with_the_flag_only() {
    let server = dated();
    assert_eq!(server.get("/a.txt").field("Last-Modified"), Some(DATE));
    assert_eq!(server.request("HEAD", "/a.txt", "").field("Last-Modified"), Some(DATE));
    let server = serve(&pages(&[("a.txt", "content")]), &[]);
    assert_eq!(server.get("/a.txt").field("Last-Modified"), None);
}

#[test]
fn future_last_modified_is_sent_as_now() {
    let server = serve(&pages(&[("a.txt", "content")]), &["--last-modified", "@99999999999"]);
    let response = server.get("/a.txt");
    assert_eq!(response.field("Last-Modified"), response.field("Date"));
}

#[test]
fn all_date_formats_are_accepted() {
    let server = dated();
    for (date, expected) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 304),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 304),
        ("Sun Nov  6 08:49:37 1994", 304),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 200),
        ("Sunday, 06-Nov-94 08:49:36 GMT", 200),
        ("Sun Nov  6 08:49:36 1994", 200),
        ("yesterday", 200),
        ("0", 200),
    ] {
        assert_eq!(status(&server, &format!("If-Modified-Since: {date}\r\n")), expected, "{date}");
    }
    for (date, expected) in [(DATE, 200), ("Sun Nov  6 08:49:36 1994", 412), ("yesterday", 200)] {
        assert_eq!(status(&server, &format!("If-Unmodified-Since: {date}\r\n")), expected, "{date}");
    }
    let repeated = format!("If-Modified-Since: {DATE}\r\nIf-Modified-Since: {DATE}\r\n");
    assert_eq!(status(&server, &repeated), 200, "a repeated singleton field is ignored");
}

#[test]
fn entity_tags_use_the_comparison_of_the_field() {
    let server = dated();
    let tag = etag(&server.get("/a.txt"));
    for (condition, expected) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".into(), 304),
        (format!("If-None-Match: \"x\", {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 304),
        ("If-None-Match: \"x\"\r\n".into(), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        (format!("If-Match: W/{tag}\r\n"), 412),
        ("If-Match: *\r\n".into(), 200),
        ("If-Match: \"x\"\r\n".into(), 412),
    ] {
        assert_eq!(status(&server, &condition), expected, "{condition}");
    }
}

#[test]
fn conditions_follow_their_precedence() {
    let server = dated();
    let tag = etag(&server.get("/a.txt"));
    let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
    for (conditions, expected) in [
        (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {earlier}\r\n"), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {DATE}\r\n"), 200),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 412),
        (format!("If-Match: {tag}\r\nIf-None-Match: {tag}\r\n"), 304),
        (format!("If-Unmodified-Since: {earlier}\r\nIf-Modified-Since: {DATE}\r\n"), 412),
    ] {
        assert_eq!(status(&server, &conditions), expected, "{conditions}");
    }
}

#[test]
fn not_modified_has_the_required_fields() {
    let server =
        serve(&pages(&[("a.html", "content ".repeat(100).leak())]), &["--last-modified", "@784111777"]);
    let whole = server.get_with_coding("/a.html", "gzip");
    let lines = format!("Accept-Encoding: gzip\r\nIf-None-Match: {}\r\n", etag(&whole));
    let response = server.request("GET", "/a.html", &lines);
    assert_eq!(response.status, 304);
    for name in ["ETag", "Vary", "Cache-Control", "Last-Modified"] {
        assert!(response.field(name).is_some(), "{name}");
        assert_eq!(response.field(name), whole.field(name), "{name}");
    }
    assert!(response.field("Date").is_some());
    for name in ["Content-Length", "Content-Type", "Content-Encoding"] {
        assert_eq!(response.field(name), None, "{name}");
    }
}

#[test]
fn each_coding_has_its_entity_tag() {
    let server = serve(&pages(&[("a.html", "content ".repeat(100).leak())]), &[]);
    let tags = ["gzip", "br", "identity"].map(|coding| etag(&server.get_with_coding("/a.html", coding)));
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    let with = |coding: &str, tag: &str| {
        let lines = format!("Accept-Encoding: {coding}\r\nIf-None-Match: {tag}\r\n");
        server.request("GET", "/a.html", &lines).status
    };
    assert_eq!((with("gzip", &tags[0]), with("br", &tags[0]), with("br", &tags[1])), (304, 200, 304));
}

#[test]
fn conditions_apply_to_success_only() {
    let server = serve(
        &pages(&[("404.html", "none"), ("_redirects", "/old /new 301\n/gone /404.html 410\n")]),
        &["--last-modified", "@784111777"],
    );
    for conditions in ["If-None-Match: *\r\n", "If-Match: \"x\"\r\n"] {
        assert_eq!(server.request("GET", "/nothing", conditions).status, 404, "{conditions}");
        assert_eq!(server.request("GET", "/old", conditions).status, 301, "{conditions}");
        assert_eq!(server.request("POST", "/404.html", conditions).status, 405, "{conditions}");
    }
    // Such responses have no validators.
    for target in ["/nothing", "/404.html", "/gone"] {
        let response = server.get(target);
        assert!(matches!(response.status, 404 | 410), "{target}");
        assert_eq!((response.field("ETag"), response.field("Last-Modified")), (None, None), "{target}");
    }
}

#[test]
fn without_entity_tags_only_any_matches() {
    let server = serve(&pages(&[("a.txt", "content")]), &["--exclude-etag"]);
    assert_eq!(server.get("/a.txt").field("ETag"), None);
    assert_eq!(status(&server, "If-Match: \"x\"\r\n"), 412);
    assert_eq!(status(&server, "If-Match: *\r\n"), 200);
    assert_eq!(status(&server, "If-None-Match: *\r\n"), 304);
}
