//! Request targets and hosts: RFC 9110, sections 4 and 7; RFC 9112, section 3.

use super::{responses, site, statuses};

#[test]
fn target_of_8000_bytes_is_accepted() {
    let server = site();
    let query = "q".repeat(8000 - "/a.txt?".len());
    let response = server.get(&format!("/a.txt?{query}"));
    assert_eq!((response.status, response.body.as_slice()), (200, b"content".as_slice()));
}

#[test]
fn longer_target_gets_414() {
    assert_eq!(site().get(&format!("/a.txt?{}", "q".repeat(9000))).status, 414);
}

#[test]
fn location_is_never_longer_than_a_target() {
    let server = site();
    // A query may contain bytes outside ASCII. Location has each of them as an escape of three bytes.
    let query = "\u{e4}".repeat(1200);
    let longest = server.get(&format!("/docs?{query}"));
    assert_eq!(longest.status, 308);
    let location = longest.field("Location").unwrap();
    assert!(location.len() > 7000, "{}", location.len());
    assert_eq!(server.get(location).status, 200, "the server accepts its own Location");
    let query = "\u{e4}".repeat(1600);
    assert_eq!(server.get(&format!("/docs?{query}")).status, 414);
}

#[test]
fn absolute_form_needs_a_host_without_userinfo() {
    let server = site();
    for target in [
        "http://user@localhost/a.txt",
        "http://user:word@localhost/a.txt",
        "http://:80/a.txt",
        "http:///a.txt",
        "http://localhost:8o/a.txt",
        "http://[::1/a.txt",
        "http:/a.txt",
    ] {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
    assert_eq!(server.get("http://[::1]:80/a.txt").body, b"content");
}

#[test]
fn https_target_over_plain_tcp_is_misdirected() {
    let server = site();
    let response = server.get("https://localhost/a.txt");
    assert_eq!((response.status, response.field("Connection")), (421, Some("close")));
}

/// Returns a request for a target with a line for the host.
fn request(target: &str, host: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{host}\r\n").into_bytes()
}

#[test]
fn absolute_form_overrides_the_host_field() {
    let server = crate::harness::serve(
        &crate::harness::pages(&[("a.txt", "default"), ("_hosts/example.com/a.txt", "host")]),
        &[],
    );
    let body = |target: &str, host: &str| responses(&server, &request(target, host), &[])[0].body.clone();
    assert_eq!(body("http://example.com/a.txt", "Host: other.example\r\n"), b"host");
    assert_eq!(body("http://other.example/a.txt", "Host: example.com\r\n"), b"default");
    assert_eq!(body("/a.txt", "Host: EXAMPLE.com:8080\r\n"), b"host");
}

#[test]
fn absolute_form_needs_a_host_field() {
    assert_eq!(statuses(&site(), &request("http://example.com/a.txt", "")), [400]);
}

#[test]
fn absolute_form_needs_a_valid_host_field() {
    let server = site();
    for host in ["Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: user@a\r\n"] {
        assert_eq!(statuses(&server, &request("http://example.com/a.txt", host)), [400], "{host:?}");
    }
}

#[test]
fn asterisk_form_is_for_options_only() {
    let server = site();
    assert_eq!(server.request("OPTIONS", "*", "").status, 204);
    assert_eq!(server.request("GET", "*", "").status, 400);
    assert_eq!(server.request("HEAD", "*", "").status, 400);
    assert_eq!(server.request("OPTIONS", "localhost:80", "").status, 400);
    assert_eq!(server.request("GET", "localhost:80", "").status, 400);
}

#[test]
fn malformed_targets_are_not_repaired() {
    let server = site();
    for line in
        ["GET /a b.txt HTTP/1.1", "GET  /a.txt HTTP/1.1", "GET /a.txt\tHTTP/1.1", "GET a.txt HTTP/1.1"]
    {
        let request = format!("{line}\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&server, request.as_bytes()), [400], "{line}");
    }
}

#[test]
fn files_outside_the_archive_are_unreachable() {
    let server = site();
    for target in [
        "/etc/passwd",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/..%5c..%5cetc%5cpasswd",
        "/%252e%252e/%252e%252e/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "file:///etc/passwd",
    ] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {}", response.status);
        assert!(!response.body.windows(5).any(|window| window == b"root:"), "{target}");
    }
}

#[test]
fn target_with_a_fragment_is_bad() {
    let server = site();
    for target in ["/a.txt#part", "/a.txt?q#part", "/a.txt#part?q", "/#", "http://localhost/a.txt#part"] {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
}

#[test]
fn malformed_hosts_are_bad() {
    let server = site();
    for host in ["a%zz", "a%4", "[::zz]", "[]", "[::1", "[::1]x", "[fe80::1%25eth0]", "[v.x]", "a\\b"] {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&server, request.as_bytes()), [400], "{host}");
        assert_eq!(server.get(&format!("http://{host}/a.txt")).status, 400, "{host}");
    }
}

#[test]
fn unusual_hosts_are_valid() {
    let server = site();
    for host in ["%61", "[::ffff:192.0.2.1]:80", "[v1.a:b]"] {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&server, request.as_bytes()), [200], "{host}");
    }
}
