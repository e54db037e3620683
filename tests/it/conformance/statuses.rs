//! Fields and content of each status: RFC 9110, section 15.

use std::fs;
use std::ops::RangeInclusive;

use super::{responses, site};
use crate::harness::{Response, Server, compile, pages, serve, write_folder};

/// Checks the pages of errors, which must have these statuses.
fn check_errors(found: &[Response], expected: &[u16]) {
    let mut statuses: Vec<u16> = found.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    assert_eq!(statuses, expected);
    for response in found {
        let page = String::from_utf8(response.body.clone()).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.contains("<p>"), "{}: {page}", response.status);
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.field("Cache-Control"), Some("no-store"), "{}", response.status);
        assert!(response.field("Date").is_some(), "{}", response.status);
        // For light and dark schemes, small, and without information about the server.
        assert!(page.contains("color-scheme content=\"light dark\"") && page.len() < 1000, "{page}");
        let lower = page.to_lowercase();
        for word in ["cannery", "localhost", "127.0.0.1", env!("CARGO_PKG_VERSION")] {
            assert!(!lower.contains(word), "{word} in {page}");
        }
    }
}

#[test]
fn errors_are_explained_and_not_cached() {
    let server = site();
    let found = [
        ("GET", "/%zz", ""),
        ("GET", "/nothing", ""),
        ("GET", "/nothing.css", ""),
        ("POST", "/a.txt", ""),
        ("GET", "/a.txt", "If-Match: \"x\"\r\n"),
        ("GET", "/a.txt", "Range: bytes=1000-\r\n"),
        ("BREW", "/a.txt", ""),
    ];
    let found = found.map(|(method, target, lines)| server.request(method, target, lines));
    check_errors(&found, &[400, 404, 405, 412, 416, 501]);
}

/// All others but 408, which takes a timeout, and 500.
#[test]
fn refusals_are_explained_and_not_cached() {
    let server = site();
    let mut found = vec![
        server.request("GET", "/a.txt", "Expect: miracles\r\n"),
        server.request("GET", "https://localhost/a.txt", ""),
    ];
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(9000));
    let large = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    for request in ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/3.0\r\n\r\n", &long, &large] {
        found.extend(responses(&server, request.as_bytes(), &[]));
    }
    check_errors(&found, &[400, 414, 417, 421, 431, 505]);
}

#[test]
fn redirects_have_a_location() {
    let server = site();
    for (target, status, location) in [
        ("/old", 301, "/new"),
        ("/found", 302, "/new"),
        ("/see", 303, "/new"),
        ("/for-now", 307, "/new"),
        ("/docs", 308, "/docs/"),
        ("http://user-agent.example:8080/docs?a=b", 308, "/docs/?a=b"),
    ] {
        let response = server.get(target);
        assert_eq!((response.status, response.field("Location")), (status, Some(location)), "{target}");
        // Caches must be able to forget a permanent redirect that was a mistake.
        let caching = if matches!(status, 301 | 308) { "public, max-age=3600" } else { "no-cache" };
        assert_eq!(response.field("Cache-Control"), Some(caching), "{target}");
        assert!(
            response.field("Date").is_some() && response.field("Content-Length") == Some("0"),
            "{target}"
        );
    }
}

#[test]
fn location_is_always_a_uri_reference() {
    check_locations(0x21..=0x7f, 250);
}

#[test]
fn location_has_escapes_outside_ascii() {
    check_locations(0x80..=0xff, 400);
}

/// Requests redirects with each of these bytes in path and query. Panics unless at least `min` of them have a location.
fn check_locations(bytes: RangeInclusive<u8>, min: u32) {
    let files = [("docs/index.html", "docs"), ("_redirects", "/go/* /new/:splat?own=1#part 302\n")];
    let server = serve(&pages(&files), &[]);
    let mut checked = 0;
    for byte in bytes {
        for (before, after) in
            [(&b"/go/a"[..], &b"b?q=c%41%"[..]), (b"/go/x?a", b"b"), (b"/docs?", b""), (b"/docs?%4", b"1")]
        {
            let request =
                [b"GET ", before, &[byte], after, b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"];
            let response = &responses(&server, &request.concat(), &[])[0];
            if let Some(location) = response.field("Location") {
                assert!(is_relative_reference(location), "{byte:#x} after {before:?}: {location}");
                checked += 1;
            }
        }
    }
    assert!(checked >= min, "{checked} of them are redirects");
}

/// Returns `true` if the text is an absolute path with optional query and fragment (RFC 3986, section 4.2).
fn is_relative_reference(text: &str) -> bool {
    let is_valid = |part: &str, more: &str| {
        let mut bytes = part.bytes();
        while let Some(byte) = bytes.next() {
            let good = match byte {
                b'%' => (0..2).all(|_| bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
                byte => {
                    byte.is_ascii_alphanumeric()
                        || b"-._~!$&'()*+,;=:@/".contains(&byte)
                        || more.as_bytes().contains(&byte)
                }
            };
            if !good {
                return false;
            }
        }
        true
    };

    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    path.starts_with('/')
        && !path.starts_with("//")
        && is_valid(path, "")
        && is_valid(query, "?")
        && is_valid(fragment, "?")
}

#[test]
fn damaged_archive_is_a_server_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    fs::create_dir(&source).unwrap();
    let content = "the content of the only page, which is nowhere else in the file";
    write_folder(&source, &pages(&[("a.txt", content), ("b.txt", "whole")]));
    // A smaller archive would be verified before the server starts.
    fs::write(source.join("large.mp4"), vec![b'~'; 16 << 20]).unwrap();
    compile(&source, &archive, &["--compress", "identity"]);

    // Makes the record's position of the body point past the end of the file.
    let mut bytes = fs::read(&archive).unwrap();
    let find = |bytes: &[u8], pattern: &[u8]| {
        bytes
            .windows(pattern.len())
            .enumerate()
            .filter(|(_, found)| *found == pattern)
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let position = u32::try_from(find(&bytes, content.as_bytes())[0]).unwrap();
    let references = find(&bytes, &position.to_le_bytes());
    assert!(!references.is_empty(), "the record has the position of the body");
    for reference in references {
        bytes[reference..reference + 4].copy_from_slice(&(u32::MAX - 9).to_le_bytes());
    }
    fs::write(&archive, bytes).unwrap();

    let server = Server::start_on_all_transports(&["--archive", archive.to_str().unwrap()]);
    let response = server.get("/a.txt");
    assert_eq!(response.status, 500);
    assert_eq!(response.field("Cache-Control"), Some("no-store"));
    assert!(String::from_utf8_lossy(&response.body).contains("<p>"));
    assert_eq!(server.get("/b.txt").body, b"whole", "intact records are served");
}

#[test]
fn custom_error_pages_are_never_immutable() {
    // The name has the first digits of the SHA-256 of the content `x`, so the file itself is immutable.
    let files = [
        ("404.html", "x"),
        ("app-2d711642b726b044.js", "x"),
        ("_redirects", "/gone /app-2d711642b726b044.js 410\n/went/* /:splat 410\n"),
        ("all/404.html", "x"),
        ("_headers", "/all/*\n  Cache-Control: public, max-age=31536000, immutable\n"),
    ];

    let server = serve(&pages(&files), &[]);
    let caching = |target: &str| {
        let response = server.get(target);
        (response.status, response.field("Cache-Control").unwrap().to_owned())
    };

    assert_eq!(caching("/app-2d711642b726b044.js").1, "public, max-age=31536000, immutable");
    for (target, status) in
        [("/nothing", 404), ("/all/nothing", 404), ("/gone", 410), ("/went/app-2d711642b726b044.js", 410)]
    {
        let (found, caching) = caching(target);
        assert_eq!(found, status);
        assert!(!caching.contains("immutable") && !caching.contains("max-age"), "{target}: {caching}");
    }
}
