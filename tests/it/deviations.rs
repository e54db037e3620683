//! Where popular servers of files deviate from the RFCs, seen at this one: each test says which server does otherwise.

use crate::site::{Response, Server, decode, pages, serve};

const CODINGS: [&str; 4] = ["identity", "gzip", "br", "zstd"];

/// A page that several kilobytes are left of in any coding.
fn page() -> String {
    (0..2000u32).map(|number| format!("<p>paragraph {}</p>\n", number.wrapping_mul(2_654_435_761))).collect()
}

fn server() -> Server {
    serve(&[(b"page.html", page().as_bytes())], &["--compress", "identity,gzip,brotli,zstd"])
}

fn ask(server: &Server, method: &str, coding: &str, lines: &str) -> Response {
    server.ask(method, "/page.html", &format!("Accept-Encoding: {coding}\r\n{lines}"))
}

/// The coding of an answer by its `Content-Encoding`.
fn coding_of(response: &Response) -> &str {
    response.field("Content-Encoding").unwrap_or("identity")
}

/// nginx sends files of `gzip_static` without `Vary` unless `gzip_vary` is on, so a cache hands coded bytes to clients
/// that cannot read them.
#[test]
fn every_answer_that_depends_on_accept_encoding_says_so() {
    let server = server();
    for coding in CODINGS {
        let whole = ask(&server, "GET", coding, "");
        assert_eq!((whole.status, coding_of(&whole)), (200, coding));
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
            let response = ask(&server, method, coding, lines);
            assert_eq!(response.status, status, "{method} in {coding} with {lines}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{method} in {coding} with {lines}");
        }
    }
    assert_eq!(server.get("/page.html").field("Vary"), Some("Accept-Encoding"), "and who names no coding");
}

/// lighttpd looks for the name of a coding and overlooks its weight.
#[test]
fn a_coding_of_no_weight_is_never_sent() {
    let server = server();
    for coding in ["gzip", "br", "zstd"] {
        for weight in ["q=0", "q=0.0", "q=0.00", "q=0.000", "Q=0", " q=0"] {
            let response = ask(&server, "GET", &format!("{coding};{weight}"), "");
            assert_eq!((response.status, coding_of(&response)), (200, "identity"), "{coding};{weight}");
            let response = ask(&server, "GET", &format!("*, {coding};{weight}"), "");
            assert_ne!(coding_of(&response), coding, "*, {coding};{weight}");
        }
        let response = ask(&server, "GET", &format!("{coding};q=0.001"), "");
        assert_eq!(coding_of(&response), coding, "the smallest weight is one");
    }
}

/// Apache's mod_deflate changes the tag of what it compresses to one that it does not know again.
#[test]
fn a_compressed_page_is_not_sent_again_to_who_has_it() {
    let server = server();
    for coding in CODINGS {
        let whole = ask(&server, "GET", coding, "");
        let tag = whole.field("ETag").unwrap();
        for held in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let again = ask(&server, "GET", coding, &format!("If-None-Match: {held}\r\n"));
            assert_eq!((again.status, again.body.len()), (304, 0), "{coding}: {held}");
            assert_eq!(again.field("ETag"), Some(tag), "{coding}: {held}");
        }
        for other in CODINGS.iter().filter(|other| **other != coding) {
            let other = ask(&server, "GET", other, &format!("If-None-Match: {tag}\r\n"));
            assert_eq!(other.status, 200, "a tag is of one coding's bytes");
        }
    }
}

/// Caddy sends compressed files that lie beside the file in chunks.
#[test]
fn a_compressed_page_says_how_long_it_is() {
    let server = server();
    for coding in CODINGS {
        let (get, head) = (ask(&server, "GET", coding, ""), ask(&server, "HEAD", coding, ""));
        assert_eq!(get.field("Content-Length"), Some(&*get.body.len().to_string()), "{coding}");
        assert_eq!(get.field("Content-Length"), head.field("Content-Length"), "{coding}");
        assert_eq!(get.field("Transfer-Encoding"), None, "{coding}");
        let coding = Some(coding).filter(|coding| *coding != "identity");
        assert!(decode(coding, &get.body) == page().as_bytes(), "{coding:?}");
    }
}

/// nginx and Apache spell a redirect with the scheme and port that they listen on, which is not the one that the
/// client knows behind a proxy.
#[test]
fn a_redirect_tells_nothing_of_where_the_server_listens() {
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

/// In nginx an `add_header` in a folder switches off those of the folders above it.
#[test]
fn a_field_of_a_folder_takes_none_away_that_holds_above_it() {
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
            "{target}: the server's own too"
        );
    }
}
