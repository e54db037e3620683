//! Deviations of popular file servers from the RFCs, which this server must not share. Each test names the other server.

use crate::harness::{Response, Server, decode, pages, serve};

const CODINGS: [&str; 4] = ["identity", "gzip", "br", "zstd"];

/// Returns a page that has several kilobytes in any coding.
fn page() -> String {
    (0..2000u32).map(|number| format!("<p>paragraph {}</p>\n", number.wrapping_mul(2_654_435_761))).collect()
}

fn server() -> Server {
    serve(&[(b"page.html", page().as_bytes())], &["--compress", "identity,gzip,brotli,zstd"])
}

fn request(server: &Server, method: &str, coding: &str, lines: &str) -> Response {
    server.request(method, "/page.html", &format!("Accept-Encoding: {coding}\r\n{lines}"))
}

/// Returns the content coding of a response.
fn content_coding(response: &Response) -> &str {
    response.field("Content-Encoding").unwrap_or("identity")
}

/// nginx sends files of `gzip_static` without `Vary` unless `gzip_vary` is on, so a cache sends coded content to clients
/// that cannot decode it.
#[test]
fn every_negotiated_response_has_vary() {
    let server = server();
    for coding in CODINGS {
        let whole = request(&server, "GET", coding, "");

        assert_eq!((whole.status, content_coding(&whole)), (200, coding));
        let tag = whole.field("ETag").unwrap();
        let held = format!("If-None-Match: {tag}\r\n");
        for (method, lines, status) in [
            ("GET", "", 200),
            ("HEAD", "", 200),
            ("GET", "Range: bytes=0-9\r\n", 206),
            ("GET", "Range: bytes=0-0,9-9\r\n", 206),
            ("GET", "Range: bytes=999999-\r\n", 416),
            ("GET", held.as_str(), 304),
            ("HEAD", held.as_str(), 304),
        ] {
            let response = request(&server, method, coding, lines);
            assert_eq!(response.status, status, "{method} in {coding} with {lines}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{method} in {coding} with {lines}");
        }
    }
    assert_eq!(server.get("/page.html").field("Vary"), Some("Accept-Encoding"), "without Accept-Encoding");
}

/// lighttpd searches for the name of a coding and ignores its weight.
#[test]
fn coding_with_weight_zero_is_never_sent() {
    let server = server();
    for coding in ["gzip", "br", "zstd"] {
        for weight in ["q=0", "q=0.0", "q=0.00", "q=0.000", "Q=0", " q=0"] {
            let response = request(&server, "GET", &format!("{coding};{weight}"), "");
            assert_eq!((response.status, content_coding(&response)), (200, "identity"), "{coding};{weight}");
            let response = request(&server, "GET", &format!("*, {coding};{weight}"), "");
            assert_ne!(content_coding(&response), coding, "*, {coding};{weight}");
        }
        let response = request(&server, "GET", &format!("{coding};q=0.001"), "");
        assert_eq!(content_coding(&response), coding, "the smallest weight is acceptable");
    }
}

/// Apache's mod_deflate changes the entity tag of compressed content to one that it doesn't recognize.
#[test]
fn entity_tags_of_compressed_pages_match() {
    let server = server();
    for coding in CODINGS {
        let whole = request(&server, "GET", coding, "");
        let tag = whole.field("ETag").unwrap();
        for held in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let again = request(&server, "GET", coding, &format!("If-None-Match: {held}\r\n"));
            assert_eq!((again.status, again.body.len()), (304, 0), "{coding}: {held}");
            assert_eq!(again.field("ETag"), Some(tag), "{coding}: {held}");
        }
        for other in CODINGS.iter().filter(|other| **other != coding) {
            let other = request(&server, "GET", other, &format!("If-None-Match: {tag}\r\n"));
            assert_eq!(other.status, 200, "an entity tag belongs to one coding");
        }
    }
}

/// Caddy sends precompressed files with chunked transfer coding.
#[test]
fn compressed_pages_have_a_content_length() {
    let server = server();
    for coding in CODINGS {
        let get = request(&server, "GET", coding, "");
        let head = request(&server, "HEAD", coding, "");
        assert_eq!(get.field("Content-Length"), Some(&*get.body.len().to_string()), "{coding}");
        assert_eq!(get.field("Content-Length"), head.field("Content-Length"), "{coding}");
        assert_eq!(get.field("Transfer-Encoding"), None, "{coding}");
        let coding = Some(coding).filter(|coding| *coding != "identity");
        assert!(decode(coding, &get.body) == page().as_bytes(), "{coding:?}");
    }
}

/// nginx and Apache redirect to the scheme and port of their listener, which are not those of a proxy before them.
#[test]
fn redirects_do_not_name_the_listener() {
    let server =
        serve(&pages(&[("docs/index.html", "docs"), ("_redirects", "/old/* /docs/:splat 301\n")]), &[]);
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?a=b", "/docs/?a=b"),
        ("/old/x", "/docs/x"),
        ("http://proxy.example/docs", "/docs/"),
    ] {
        let response = server.get(target);
        assert_eq!(response.field("Location"), Some(location), "{target}");
        assert!(response.body.is_empty(), "{target}");
    }
}

/// In nginx, `add_header` in a location discards those of the outer levels.
#[test]
fn header_rules_of_outer_folders_apply() {
    let rules = "/*\n  X-Above: a\n  X-Frame-Options: DENY\n/deep/*\n  X-Below: b\n";
    let server = serve(&pages(&[("_headers", rules), ("deep/a.txt", "a"), ("deep/_404.html", "none")]), &[]);
    for target in ["/deep/a.txt", "/deep/none"] {
        let response = server.get(target);
        assert_eq!(
            (response.field("X-Above"), response.field("X-Below"), response.field("X-Frame-Options")),
            (Some("a"), Some("b"), Some("DENY")),
            "{target}"
        );
        assert_eq!(
            response.field("X-Content-Type-Options"),
            Some("nosniff"),
            "{target}: the server's default"
        );
    }
}
