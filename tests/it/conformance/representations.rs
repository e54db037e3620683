//! Representations, negotiation, conditions and ranges: RFC 9110, sections 8, 12, 13 and 14.

use super::{site, status};
use crate::harness::{Response, decode};

/// Returns the fields of a response except `Date` and those in `without`.
fn fields(response: &Response, without: &[&str]) -> Vec<(String, String)> {
    let is_left_out = |name: &str| {
        name.eq_ignore_ascii_case("Date") || without.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let mut fields: Vec<_> = response.fields.iter().filter(|(name, _)| !is_left_out(name)).cloned().collect();
    // Some libraries keep fields in a hash table, and their order has no significance (RFC 9110 §5.3).
    fields.sort_unstable();
    fields
}

#[test]
fn partial_response_has_the_fields_of_the_full_one() {
    let server = site();
    for coding in ["identity", "br"] {
        let request = |line: &str| {
            server.request("GET", "/page.html", &format!("Accept-Encoding: {coding}\r\n{line}\r\n"))
        };

        let whole = request("X: y");
        for name in
            ["Cache-Control", "ETag", "Expires", "Content-Location", "Vary", "Last-Modified", "X-Other"]
        {
            assert!(whole.field(name).is_some(), "{name}");
        }

        let part = request("Range: bytes=0-9");
        assert_eq!(part.status, 206);
        assert_eq!(fields(&part, &["Content-Range", "Content-Length"]), fields(&whole, &["Content-Length"]));
        assert_eq!((part.body.as_slice(), part.field("Content-Length")), (&whole.body[..10], Some("10")));

        // A multipart response has another type and no coding: each part has fields of its own.
        let parts = request("Range: bytes=0-9,50-59");
        assert_eq!((parts.status, parts.field("Content-Range")), (206, None));
        let not_of_parts = ["Content-Length", "Content-Type", "Content-Encoding"];
        assert_eq!(fields(&parts, &not_of_parts), fields(&whole, &not_of_parts));
        let heads =
            String::from_utf8_lossy(&parts.body).matches(&format!("Content-Encoding: {coding}\r\n")).count();
        assert_eq!(heads, if coding == "identity" { 0 } else { 2 }, "{coding}");

        // More fields than If-Range requires: clients that combine parts compare their types (docs/conformance.md).
        let tag = whole.field("ETag").unwrap();
        assert_eq!(
            fields(&request(&format!("Range: bytes=0-9\r\nIf-Range: {tag}")), &[]),
            fields(&part, &[])
        );
    }
}

#[test]
fn not_modified_has_the_fields_of_the_200() {
    let server = site();
    for coding in ["identity", "br"] {
        let lines = format!("Accept-Encoding: {coding}\r\n");
        let whole = server.request("GET", "/page.html", &lines);
        for method in ["GET", "HEAD"] {
            let response = server.request(method, "/page.html", &format!("{lines}If-None-Match: *\r\n"));
            assert_eq!((response.status, response.body.len()), (304, 0));
            let of_content = ["Content-Length", "Content-Type", "Content-Encoding"];
            assert_eq!(fields(&response, &[]), fields(&whole, &of_content), "{coding} {method}");
        }
    }
}

#[test]
fn negotiated_responses_have_vary() {
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
        let response = server.request(method, "/page.html", lines);
        assert_eq!(response.status, expected, "{method} {lines}");
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{method} {lines}");
    }
}

#[test]
fn coding_weights_are_respected() {
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
        let response = server.request("GET", "/page.html", &line);
        let coding = response.field("Content-Encoding");
        let expected = if expected == Some("zstd") && coding.is_none() { None } else { expected };
        assert_eq!(coding, expected, "{value:?}");
        assert_eq!(decode(coding, &response.body), identity, "{value:?}");
    }
}

#[test]
fn conditions_apply_to_head() {
    let server = site();
    for (lines, expected) in [
        ("If-None-Match: *\r\n", 304),
        ("If-Match: \"x\"\r\n", 412),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 412),
    ] {
        assert_eq!(server.request("HEAD", "/a.txt", lines).status, expected, "{lines}");
        assert_eq!(status(&server, lines), expected, "{lines}");
    }
}

#[test]
fn list_of_dates_is_ignored() {
    let server = site();
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(status(&server, &format!("If-Modified-Since: {date}, {date}\r\n")), 200);
    assert_eq!(status(&server, &format!("If-Unmodified-Since: {date}, {date}\r\n")), 200);
    // A two-digit year more than fifty years in the future is in the past (RFC 9110, section 5.6.7).
    assert_eq!(status(&server, "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n"), 304);
}

#[test]
fn single_range_is_never_multipart() {
    let server = site();
    for range in ["bytes=0-0", "bytes=0-9,10-19", "bytes=0-9,5-14", "bytes=0-9,1000000-"] {
        let response = server.request("GET", "/page.html", &format!("Range: {range}\r\n"));
        assert_eq!(response.status, 206, "{range}");
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{range}");
        assert!(response.field("Content-Range").is_some(), "{range}");
    }
}

#[test]
fn range_positions_may_have_any_length() {
    let server = site();
    let nines = "9".repeat(200);
    for (range, expected) in [
        (format!("bytes=0-{nines}"), 206),
        (format!("bytes=-{nines}"), 206),
        (format!("bytes={nines}-"), 416),
        (format!("bytes=0-0,{nines}-{nines}"), 206),
    ] {
        assert_eq!(status(&server, &format!("Range: {range}\r\n")), expected, "{range:.30}");
    }
}

#[test]
fn empty_content_has_no_ranges() {
    let server = crate::harness::serve(&[(b"empty.txt", b"")], &[]);
    let request = |range: &str| server.request("GET", "/empty.txt", &format!("Range: {range}\r\n")).status;
    assert_eq!((request("bytes=-1"), request("bytes=0-"), request("bytes=0-0")), (200, 416, 416));
}
