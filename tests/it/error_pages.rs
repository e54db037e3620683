//! Error pages: which page is sent, and the fields that its status needs.

use crate::harness::{Response, Server, decode, pages, parse, serve};

/// Serves a site with pages for some errors, and a folder with error pages of its own.
fn server() -> Server {
    let long = "content ".repeat(100);
    let files = [
        ("a.txt", long.leak() as &str),
        ("_400.html", "root 400"),
        ("_404.html", "root 404"),
        ("_405.html", "root 405"),
        ("_412.html", "root 412"),
        ("_416.html", "root 416"),
        ("_431.html", "root 431"),
        ("_501.html", "root 501"),
        ("deep/a.txt", "deep"),
        ("deep/_404.html", "deep 404"),
        ("deep/_405.html", "deep 405"),
        ("_hosts/example.com/a.txt", "host"),
        ("_hosts/example.com/_405.html", "host 405"),
    ];
    serve(&pages(&files), &[])
}

fn assert_error(response: &Response, status: u16, page: &str) {
    assert_eq!((response.status, String::from_utf8_lossy(&response.body).as_ref()), (status, page));
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("Cache-Control"), Some("no-store"));
    assert_eq!((response.field("ETag"), response.field("Last-Modified")), (None, None));
    assert!(response.field("Date").is_some() && response.field("X-Content-Type-Options").is_some());
}

#[test]
fn nearest_page_for_the_status_is_sent() {
    let server = server();
    assert_error(&server.get("/none"), 404, "root 404");
    assert_error(&server.get("/none.js"), 404, "root 404");
    assert_error(&server.get("/deep/none/of/it"), 404, "deep 404");
    assert_error(&server.request("DELETE", "/a.txt", ""), 405, "root 405");
    assert_error(&server.request("DELETE", "/deep/a.txt", ""), 405, "deep 405");
    assert_error(&server.request("BREW", "/deep/a.txt", ""), 501, "root 501");
    assert_error(&server.get("/deep/%00"), 400, "root 400");
}

#[test]
fn custom_pages_keep_the_fields_of_the_status() {
    let server = server();
    for method in ["DELETE", "BREW"] {
        let response = server.request(method, "/deep/a.txt", "");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
    let response = server.request("GET", "/a.txt", "Accept-Encoding: identity\r\nRange: bytes=800-\r\n");
    assert_error(&response, 416, "root 416");
    assert_eq!(response.field("Content-Range"), Some("bytes */800"));
    assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    assert_error(&server.request("GET", "/a.txt", "If-Match: \"x\"\r\n"), 412, "root 412");
}

#[test]
fn hosts_have_error_pages_of_their_own() {
    let server = server();
    assert_error(&server.request("DELETE", "http://example.com/a.txt", ""), 405, "host 405");
    let response = server.get("http://example.com/none");
    assert_eq!(response.status, 404);
    assert_ne!(response.body, b"root 404", "a host shares nothing with the default site");
}

#[test]
fn malformed_requests_get_the_page_of_the_root() {
    let server = server();
    let refusal = |bytes: &[u8]| {
        let received = server.raw(bytes);
        let (response, rest) = parse(&received, "GET");
        assert!(rest.is_empty());
        assert_eq!(response.field("Connection"), Some("close"));
        response
    };
    assert_error(&refusal(b"GET / HTTP/1.1\r\n\r\n"), 400, "root 400");
    assert_error(&refusal(b"GET / HTTP/1.1\r\nHost: example.com\r\nHost: a\r\n\r\n"), 400, "root 400");
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    assert_error(&refusal(large.as_bytes()), 431, "root 431");
    assert_error(
        &refusal(b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x, chunked\r\n\r\n"),
        501,
        "root 501",
    );
    let version = refusal(b"GET / HTTP/3.0\r\nHost: a\r\n\r\n");
    assert_eq!((version.status, version.field("Cache-Control")), (505, Some("no-store")));
}

#[test]
fn large_error_page_arrives_complete() {
    let large = "an error page that explains itself at length\n".repeat(20_000);
    let files = [("_400.html", large.clone().leak() as &str), ("_404.html", large.clone().leak())];
    let server = serve(&pages(&files), &["--compress", "identity"]);
    assert_error(&server.get("/none"), 404, &large);
    assert_error(&parse(&server.raw(b"\x00"), "GET").0, 400, &large);
}

#[test]
fn error_pages_are_negotiated() {
    let page = "a long page ".repeat(100);
    let server = serve(&pages(&[("_404.html", page.clone().leak() as &str)]), &["--compress", "gzip"]);
    let coded = server.get_with_coding("/none", "gzip");
    assert_eq!((coded.status, coded.field("Content-Encoding")), (404, Some("gzip")));
    assert!(decode(Some("gzip"), &coded.body) == page.as_bytes());
    let plain = server.get_with_coding("/none", "identity");
    assert_eq!((plain.status, plain.field("Content-Encoding")), (404, None), "an error never becomes 406");
    assert!(plain.body == page.as_bytes());
}

#[test]
fn head_has_the_fields_of_the_error_page() {
    let server = server();
    for target in ["/none", "/deep/none", "/%zz"] {
        let mut get = server.get(target);
        let mut head = server.request("HEAD", target, "");
        assert!(head.body.is_empty() && !get.body.is_empty());
        for response in [&mut get, &mut head] {
            response.fields.retain(|(name, _)| name != "Date");
            response.body.clear();
        }
        assert_eq!(get, head, "{target}");
    }
}

#[test]
fn built_in_pages_are_small_and_reveal_nothing() {
    let server = serve(&pages(&[("a.txt", "content")]), &[]);

    let errors = [
        server.get("/none"),
        server.get("/%00"),
        server.request("DELETE", "/a.txt", ""),
        server.request("BREW", "/a.txt", ""),
        server.request("GET", "/a.txt", "If-Match: \"x\"\r\n"),
        server.request("GET", "/a.txt", "Range: bytes=99-\r\n"),
        parse(&server.raw(b"GET / HTTP/1.1\r\n\r\n"), "GET").0,
    ];

    for response in errors {
        let page = String::from_utf8(response.body.clone()).unwrap();
        assert!(page.len() < 1024 && page.starts_with("<!doctype html>"), "{page}");
        assert!(page.contains("content=\"light dark\""), "no colour scheme: {page}");
        let lower = page.to_ascii_lowercase();
        for word in ["cannery", env!("CARGO_PKG_VERSION"), "localhost", "127.0.0.1", "http://"] {
            assert!(!lower.contains(word), "{word} in {page}");
        }
        assert_error(&response, response.status, &page);
        assert_eq!(response.field("Server"), None);
    }
}

#[test]
fn built_in_pages_have_status_path_and_link() {
    let server = serve(&pages(&[("index.html", "home")]), &[]);
    let page = |target: &str| {
        let response = server.get(target);
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
        (response.status, String::from_utf8(response.body).unwrap())
    };
    let (status, text) = page("/a/<b>?c=d");
    assert_eq!(status, 404);
    for part in ["<main>", "404", "<code>/a/&lt;b&gt;</code>", "<a href=\"/\">"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (status, text) = page("/%00");
    assert!(status == 400 && text.contains("400") && text.contains("/%00"), "{text}");
    let large = format!("/{}", "<".repeat(4000));
    let (status, text) = page(&large);
    assert!(status == 404 && text.contains("&lt;…</code>"), "{text}");
}

/// The page names the host, so that its owner can correct the configuration.
#[test]
fn page_names_a_host_without_site() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    crate::harness::write_folder(&source, &pages(&[("index.html", "home")]));
    crate::harness::compile(&source, &archive, &[]);
    let named = format!("a.example={}", archive.to_str().unwrap());
    let server = Server::start(&["--archive", &named]);
    let response = server.request_host("b.example:80", "GET", "/", "");
    let text = String::from_utf8(response.body).unwrap();
    assert_eq!(response.status, 421);
    assert!(text.contains("no site for the host name") && text.contains("<code>b.example</code>"), "{text}");

    // A body here would be taken for the next response.
    let received = server.raw(
        b"HEAD / HTTP/1.1\r\nHost: b.example\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    );
    let (head, rest) = parse(&received, "HEAD");
    assert_eq!(head.status, 421);
    let next = parse(rest, "GET").0;
    assert_eq!((next.status, next.body.as_slice()), (200, b"home".as_slice()));

    let server = Server::start_on_all_transports(&["--archive", &named]);
    for _ in 0..2 {
        assert_eq!(server.request_host("b.example", "HEAD", "/", "").status, 421);
    }
}
