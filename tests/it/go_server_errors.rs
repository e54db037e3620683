//! Errors of the Go server that this project replaces, which it must not share.

use crate::harness::{pages, serve};

#[test]
fn equal_files_keep_their_media_types() {
    let server = serve(&pages(&[("a.css", "x{}"), ("b.txt", "x{}"), ("c.js", "x{}")]), &[]);
    let types =
        ["/a.css", "/b.txt", "/c.js"].map(|path| server.get(path).field("Content-Type").unwrap().to_owned());
    assert_eq!(
        types,
        ["text/css; charset=utf-8", "text/plain; charset=utf-8", "text/javascript; charset=utf-8"]
    );
}

#[test]
fn error_page_may_equal_the_index_page() {
    let server = serve(&pages(&[("index.html", "same"), ("404.html", "same")]), &[]);
    assert_eq!((server.get("/").status, server.get("/nothing").status), (200, 404));
}

#[test]
fn empty_file_and_redirect_coexist() {
    let server = serve(&pages(&[("empty.txt", ""), ("_redirects", "/a /b 301\n")]), &[]);
    let empty = server.get("/empty.txt");
    assert_eq!((empty.status, empty.field("Content-Length")), (200, Some("0")));
    assert_eq!(server.get("/a").status, 301);
}

#[test]
fn names_may_differ_in_their_suffix_only() {
    let server = serve(
        &pages(&[
            ("a", "bare"),
            ("a.html", "page"),
            ("a.txt", "text"),
            ("b.html", "page"),
            ("b.txt", "text"),
        ]),
        &[],
    );
    let bodies = ["/a", "/a.html", "/a.txt", "/b", "/b.txt"].map(|path| server.get(path).body);
    assert_eq!(bodies, [b"bare", b"page", b"text", b"page", b"text"].map(|body| body.to_vec()));
}

#[test]
fn charset_is_sent_for_utf8_only() {
    let server = serve(&[(b"good.txt", "é".as_bytes()), (b"bad.txt", b"\xe9"), (b"p.png", b"x")], &[]);
    assert_eq!(server.get("/good.txt").field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(server.get("/bad.txt").field("Content-Type"), Some("text/plain"));
    assert_eq!(server.get("/p.png").field("Content-Type"), Some("image/png"));
}

#[test]
fn path_of_many_slashes_is_served() {
    let server = serve(&pages(&[("_wildcard.html", "any")]), &[]);
    let target = "/".repeat(8000);
    assert_eq!(server.get(&target).body, b"any");
    let target = "/a".repeat(4000);
    assert_eq!(server.get(&target).body, b"any");
}

#[test]
fn only_fingerprinted_files_are_immutable() {
    // The first name has the first digits of the SHA-256 of the content `x`.
    let server = serve(
        &pages(&[("index.html", "x"), ("app-2d711642b726b044.js", "x"), ("app-2d711642b726b045.js", "x")]),
        &[],
    );
    let caching = |path| server.get(path).field("Cache-Control").unwrap().to_owned();
    assert_eq!(caching("/"), "public, no-cache");
    assert_eq!(caching("/app-2d711642b726b044.js"), "public, max-age=31536000, immutable");
    assert_eq!(caching("/app-2d711642b726b045.js"), "public, max-age=3600");
}
