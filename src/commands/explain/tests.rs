//! Tests of `cannery explain`, on the sample archive.

use super::*;
use crate::commands::sample::Sample;

fn explained(url: &str, fields: &[&str], method: &str) -> String {
    let sample = Sample::write();
    let flags = Explain {
        archive: sample.archive.clone(),
        url: url.into(),
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        method: method.into(),
        host: None,
        debug: false,
        json: false,
    };
    let request = request_text(&flags).unwrap();
    let site = Site::new(sample.open(), VirtualHosts::Enabled);
    let security = SecurityHeaders::BASIC;
    let explanation = explain(&site, &request, security, false).unwrap();
    explanation.text(request.lines().next().unwrap(), Paint::none())
}

#[track_caller]
fn assert_contains(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn a_file_is_named_with_its_response_head() {
    let text = explained("/index.html", &[], "GET");
    assert_contains(
        &text,
        &["GET /index.html HTTP/1.1\n", "The file `index.html` has this path.", "HTTP/1.1 200 OK\n"],
    );
    assert_contains(&text, &["Content-Type: text/html\n", "Content-Length: 34\n", "ETag: \"", "Date: "]);
    assert!(!text.contains("<!doctype"), "the body must not be printed:\n{text}");
}

#[test]
fn an_alias_names_its_file() {
    assert_contains(&explained("/", &[], "GET"), &["The file `index.html` answers: it is the index page"]);
    assert!(!explained("/", &[], "GET").contains("at byte"));
}

#[test]
fn a_rule_is_named_with_its_line_and_effect() {
    let text = explained("/old/page?a=b", &[], "GET");
    assert_contains(
        &text,
        &[
            "The rule at `_redirects:1` answers:",
            "/old/{0…} -> 301 /new/{0}, unless a file has the path",
            "Location: /new/page?a=b\n",
        ],
    );
    let text = explained("/go", &[], "GET");
    assert_contains(
        &text,
        &["The rule at `_redirects:2` is for exactly this path.", "Location: https://example.com/\n"],
    );
}

#[test]
fn a_missing_path_names_the_error_page() {
    let text = explained("/missing", &[], "GET");
    assert_contains(
        &text,
        &["Nothing has this path.", "`_404.html`, the page for this status", "HTTP/1.1 404 Not Found\n"],
    );
    let text = explained("http://h.test/missing", &[], "GET");
    assert_contains(&text, &["a page that is built into the server", "HTTP/1.1 404 Not Found\n"]);
}

#[test]
fn a_url_sets_the_host_without_its_fragment() {
    let text = explained("https://h.test/index.html#top", &[], "GET");
    assert_contains(&text, &["GET /index.html HTTP/1.1\n", "HTTP/1.1 200 OK\n"]);
}

#[test]
fn errors_name_their_page() {
    assert_contains(
        &explained("/no/thing", &[], "GET"),
        &["`_404.html`, the page for this status", "HTTP/1.1 404 "],
    );
    assert_contains(&explained("/", &[], "POST"), &["a page that is built into the server", "HTTP/1.1 405 "]);
    assert_contains(&explained("/", &["Host: a b"], "GET"), &["is malformed", "a page that is built into"]);
}

#[test]
fn methods_and_fields_decide_the_status() {
    assert_contains(&explained("/", &[], "POST"), &["HTTP/1.1 405 ", "Allow: "]);
    assert_contains(
        &explained("/", &["If-None-Match: *"], "GET"),
        &["HTTP/1.1 304 ", "this version already"],
    );
    let coded = explained("/a/coded only.txt", &["accept-encoding: gzip;q=0, identity;q=0"], "GET");
    assert_contains(&coded, &["GET /a/coded%20only.txt HTTP/1.1\n", "HTTP/1.1 406 "]);
}

#[test]
fn malformed_requests_are_refused_as_by_the_server() {
    assert_contains(
        &explained("/", &["Content-Length: 1", "Transfer-Encoding: chunked"], "GET"),
        &["HTTP/1.1 400 "],
    );
}

#[test]
fn requests_that_cannot_be_sent_are_wrong_usage() {
    let flags = |field: &str, method: &str| Explain {
        archive: "a".into(),
        url: "/".into(),
        fields: vec![field.to_owned()],
        method: method.to_owned(),
        host: None,
        debug: false,
        json: false,
    };
    assert!(request_text(&flags("no colon", "GET")).is_err());
    assert!(request_text(&flags("A: b\r\nC: d", "GET")).is_err());
    assert!(request_text(&flags("A: b", "GE T")).is_err());
    assert!(request_text(&flags("A: b", "GET")).is_ok());
}

#[test]
fn vectors_have_extents_of_the_archive() {
    let sample = Sample::write();
    let site = Site::new(sample.open(), VirtualHosts::Enabled);
    let body = |method: &str, range: &str| {
        let request = format!("{method} /index.html HTTP/1.1\r\nHost: h\r\n{range}\r\n");
        explain(&site, &request, SecurityHeaders::NONE, false).unwrap().body.unwrap()
    };
    assert!(matches!(body("GET", "")[..], [Part::Archive { bytes: 34, .. }]));
    assert!(matches!(body("HEAD", "")[..], []));
    assert!(matches!(body("GET", "Range: bytes=2-4\r\n")[..], [Part::Archive { bytes: 3, .. }]));
    assert!(matches!(body("POST", "")[..], [Part::Text { .. }]));
}
