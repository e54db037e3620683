//! Content negotiation, and conditional requests for each content coding.

use crate::harness::{Server, decode, pages, serve};

fn page() -> String {
    format!("<title>page</title>{}", "<p>a paragraph that repeats itself</p>\n".repeat(100))
}

fn all_codings() -> Server {
    serve(
        &[(b"page.html", page().as_bytes()), (b"short.html", b"<p>short")],
        &["--compress", "identity,gzip,brotli,zstd"],
    )
}

#[test]
fn each_coding_is_negotiated() {
    let server = all_codings();
    let mut tags = std::collections::HashSet::new();
    for (accept_encoding, coding) in [
        ("identity", None),
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("br;q=0.5, gzip;q=1", Some("gzip")),
        ("gzip;q=0", None),
        ("deflate", None),
        ("", None),
        ("*;q=0", None),
    ] {
        let response = server.get_with_coding("/page.html", accept_encoding);
        assert_eq!(response.field("Content-Encoding"), coding, "{accept_encoding:?}");
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{accept_encoding:?}");
        assert_eq!(decode(coding, &response.body), page().as_bytes(), "{accept_encoding:?}");
        tags.insert((coding, response.field("ETag").unwrap().to_owned()));
    }

    let values: std::collections::HashSet<_> = tags.iter().map(|(_, tag)| tag).collect();
    assert_eq!((tags.len(), values.len()), (4, 4), "each coding has its own entity tag");
}

#[test]
fn incompressible_files_are_not_negotiated() {
    let response = all_codings().get_with_coding("/short.html", "gzip, br, zstd");
    assert_eq!((response.field("Content-Encoding"), response.field("Vary")), (None, None));
}

#[test]
fn current_copies_are_not_sent_again() {
    let server = all_codings();
    for accept_encoding in ["identity", "gzip", "br"] {
        let lines = format!("Accept-Encoding: {accept_encoding}\r\n");
        let whole = server.request("GET", "/page.html", &lines);
        let tag = whole.field("ETag").unwrap();

        for condition in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let response =
                server.request("GET", "/page.html", &format!("{lines}If-None-Match: {condition}\r\n"));
            assert_eq!((response.status, response.body.len()), (304, 0), "{condition}");
            for name in ["ETag", "Vary", "Cache-Control"] {
                assert_eq!(response.field(name), whole.field(name), "{name}");
            }
            assert!(response.field("Date").is_some() && response.field("Content-Type").is_none());
        }

        assert_eq!(
            server.request("GET", "/page.html", &format!("{lines}If-None-Match: \"x\"\r\n")).status,
            200
        );
        assert_eq!(server.request("GET", "/nothing", "If-None-Match: *\r\n").status, 404);
    }
}

#[test]
fn unacceptable_coding_gets_406() {
    let server = serve(&[(b"page.html", page().as_bytes())], &["--compress", "gzip"]);
    for response in [server.get("/page.html"), server.get_with_coding("/page.html", "gzip")] {
        assert_eq!(response.field("Content-Encoding"), Some("gzip"));
        assert_eq!(decode(Some("gzip"), &response.body), page().as_bytes());
    }
    for accept_encoding in ["identity", "br", "gzip;q=0", ""] {
        let response = server.get_with_coding("/page.html", accept_encoding);
        assert_eq!(
            (response.status, response.field("Vary")),
            (406, Some("Accept-Encoding")),
            "{accept_encoding:?}"
        );
    }
}

#[test]
fn entity_tags_are_deterministic() {
    let tag = |server: &Server| server.get_with_coding("/page.html", "br").field("ETag").map(str::to_owned);
    let one = all_codings();
    let other = all_codings();
    assert_eq!(tag(&one), tag(&other));
    let without = serve(&pages(&[("page.html", "x")]), &["--exclude-etag"]);
    assert_eq!(tag(&without), None);
}
