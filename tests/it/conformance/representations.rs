//! Representations, negotiation, conditions and ranges: RFC 9110 §8, §12, §13, §14.

use super::{site, status};
use crate::site::{Response, decode};

/// All fields of an answer but those that always differ.
fn fields(response: &Response, without: &[&str]) -> Vec<(String, String)> {
    let kept = response.fields.iter().filter(|(name, _)| name != "Date" && !without.contains(&name.as_str()));
    kept.cloned().collect()
}

#[test]
fn a_part_is_described_like_the_whole() {
    let server = site();
    for coding in ["identity", "br"] {
        let ask =
            |line: &str| server.ask("GET", "/page.html", &format!("Accept-Encoding: {coding}\r\n{line}\r\n"));
        let whole = ask("X: y");
        for name in
            ["Cache-Control", "ETag", "Expires", "Content-Location", "Vary", "Last-Modified", "X-Other"]
        {
            assert!(whole.field(name).is_some(), "{name}");
        }
        let part = ask("Range: bytes=0-9");
        assert_eq!(part.status, 206);
        assert_eq!(fields(&part, &["Content-Range", "Content-Length"]), fields(&whole, &["Content-Length"]));
        assert_eq!((part.body.as_slice(), part.field("Content-Length")), (&whole.body[..10], Some("10")));
        // Several parts are of another type and in no coding: each part says what it is itself.
        let parts = ask("Range: bytes=0-9,50-59");
        assert_eq!((parts.status, parts.field("Content-Range")), (206, None));
        let not_of_parts = ["Content-Length", "Content-Type", "Content-Encoding"];
        assert_eq!(fields(&parts, &not_of_parts), fields(&whole, &not_of_parts));
        let heads =
            String::from_utf8_lossy(&parts.body).matches(&format!("Content-Encoding: {coding}\r\n")).count();
        assert_eq!(heads, if coding == "identity" { 0 } else { 2 }, "{coding}");
        // More than If-Range needs: who merges parts looks for the type in each of them (docs/conformance.md).
        let tag = whole.field("ETag").unwrap();
        assert_eq!(fields(&ask(&format!("Range: bytes=0-9\r\nIf-Range: {tag}")), &[]), fields(&part, &[]));
    }
}

#[test]
fn a_304_has_what_the_200_would_have_had_and_describes_no_content() {
    let server = site();
    for coding in ["identity", "br"] {
        let lines = format!("Accept-Encoding: {coding}\r\n");
        let whole = server.ask("GET", "/page.html", &lines);
        for method in ["GET", "HEAD"] {
            let response = server.ask(method, "/page.html", &format!("{lines}If-None-Match: *\r\n"));
            assert_eq!((response.status, response.body.len()), (304, 0));
            let of_content = ["Content-Length", "Content-Type", "Content-Encoding"];
            assert_eq!(fields(&response, &[]), fields(&whole, &of_content), "{coding} {method}");
        }
    }
}

#[test]
fn every_answer_that_was_negotiated_says_on_what() {
    let server = site();
    for (method, lines, expected) in [
        ("GET", "", 200),
        ("GET", "Accept-Encoding: br\r\n", 200),
        ("HEAD", "Accept-Encoding: br\r\n", 200),
        ("GET", "Accept-Encoding: gzip\r\nRange: bytes=0-0\r\n", 206),
        ("GET", "Accept-Encoding: gzip\r\nRange: bytes=0-0,9-9\r\n", 206),
        ("GET", "If-None-Match: *\r\n", 304),
        ("HEAD", "If-None-Match: *\r\n", 304),
        ("GET", "Range: bytes=1000000-\r\n", 416),
    ] {
        let response = server.ask(method, "/page.html", lines);
        assert_eq!(response.status, expected, "{method} {lines}");
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{method} {lines}");
    }
}

#[test]
fn the_weights_of_codings_are_followed() {
    let server = site();
    let identity = server.get("/page.html").body;
    for (value, expected) in [
        (None, None),
        (Some(""), None),
        (Some("*"), Some("br")),
        (Some("*;q=0"), None),
        (Some("identity;q=0, *;q=0"), None),
        (Some("deflate, compress"), None),
        (Some("gzip;q=0, *;q=1"), Some("br")),
        (Some("br;q=0.001, gzip;q=0.002"), Some("gzip")),
        (Some("gzip;q=0.5, identity;q=0.6"), None),
        (Some("gzip;q=0, br;q=0, *;q=0.1, identity;q=0"), Some("zstd")),
        (Some("GZIP"), Some("gzip")),
        (Some("x-gzip"), Some("gzip")),
        (Some("gzip;Q=1.000, br;q=0.999"), Some("gzip")),
        (Some("br;q=1.5, gzip"), Some("gzip")),
    ] {
        let line = value.map_or(String::new(), |value| format!("Accept-Encoding: {value}\r\n"));
        let response = server.ask("GET", "/page.html", &line);
        let coding = response.field("Content-Encoding");
        let expected = if expected == Some("zstd") && coding.is_none() { None } else { expected };
        assert_eq!(coding, expected, "{value:?}");
        assert_eq!(decode(coding, &response.body), identity, "{value:?}");
    }
}

#[test]
fn conditions_on_head_are_evaluated_as_on_get() {
    let server = site();
    for (lines, expected) in [
        ("If-None-Match: *\r\n", 304),
        ("If-Match: \"x\"\r\n", 412),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 412),
    ] {
        assert_eq!(server.ask("HEAD", "/a.txt", lines).status, expected, "{lines}");
        assert_eq!(status(&server, lines), expected, "{lines}");
    }
}

#[test]
fn dates_in_a_list_are_no_date() {
    let server = site();
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(status(&server, &format!("If-Modified-Since: {date}, {date}\r\n")), 200);
    assert_eq!(status(&server, &format!("If-Unmodified-Since: {date}, {date}\r\n")), 200);
    // Two digits of a year that would lie more than fifty years ahead are of the past.
    assert_eq!(status(&server, "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n"), 304);
}

#[test]
fn one_range_is_never_answered_in_parts() {
    let server = site();
    for asked in ["bytes=0-0", "bytes=0-9,10-19", "bytes=0-9,5-14", "bytes=0-9,1000000-"] {
        let response = server.ask("GET", "/page.html", &format!("Range: {asked}\r\n"));
        assert_eq!(response.status, 206, "{asked}");
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{asked}");
        assert!(response.field("Content-Range").is_some(), "{asked}");
    }
}

#[test]
fn numbers_of_any_length_are_read_in_a_range() {
    let server = site();
    let nines = "9".repeat(200);
    for (asked, expected) in [
        (format!("bytes=0-{nines}"), 206),
        (format!("bytes=-{nines}"), 206),
        (format!("bytes={nines}-"), 416),
        (format!("bytes=0-0,{nines}-{nines}"), 206),
    ] {
        assert_eq!(status(&server, &format!("Range: {asked}\r\n")), expected, "{asked:.30}");
    }
}

#[test]
fn what_has_no_bytes_has_no_parts() {
    let server = crate::site::serve(&[(b"empty.txt", b"")], &[]);
    let ask = |range: &str| server.ask("GET", "/empty.txt", &format!("Range: {range}\r\n")).status;
    assert_eq!((ask("bytes=-1"), ask("bytes=0-"), ask("bytes=0-0")), (200, 416, 416));
}
