//! Methods and expectations: RFC 9110, sections 9 and 10.1.1; RFC 9112, section 3.

use std::io::{Read, Write};

use super::{responses, site, statuses};

#[test]
fn methods_are_case_sensitive() {
    let server = site();
    for (method, status) in
        [("get", 501), ("Get", 501), ("GETX", 501), ("PROPFIND", 405), ("PATCH", 405), ("TRACE", 405)]
    {
        let response = server.request(method, "/a.txt", "");
        assert_eq!(response.status, status, "{method}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
    let long = format!("{} /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "A".repeat(20_000));
    assert_eq!(statuses(&server, long.as_bytes()), [501]);
}

#[test]
fn trace_reveals_no_fields() {
    let response = site().request("TRACE", "/a.txt", "Cookie: secret-of-mine\r\n");
    assert_eq!(response.status, 405);
    assert!(!String::from_utf8_lossy(&response.body).contains("secret-of-mine"));
}

#[test]
fn connect_is_refused() {
    let server = site();
    for target in ["localhost:80", "localhost", "localhost:", "localhost:99999"] {
        let status = server.request("CONNECT", target, "").status;
        assert!((400..500).contains(&status), "{target}: {status}");
    }
}

#[test]
fn head_equals_get_without_content() {
    let server = site();
    for target in ["/page.html", "/a.txt", "/nothing", "/nothing.js", "/docs", "/old", "/gone/x", "/%zz"] {
        for line in ["", "Accept-Encoding: br\r\n", "If-None-Match: *\r\n", "If-Match: \"x\"\r\n"] {
            let head = server.request("HEAD", target, line);
            let get = server.request("GET", target, line);
            assert_eq!(head.status, get.status, "{target} {line:?}");
            let without_date = |fields: &[(String, String)]| -> Vec<_> {
                let kept = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("Date"));
                // Some frameworks move `Content-Length`, and the order has no meaning (RFC 9110 §5.3).
                let mut kept: Vec<_> = kept.cloned().collect();
                kept.sort();
                kept
            };
            assert_eq!(without_date(&head.fields), without_date(&get.fields), "{target} {line:?}");
        }
    }
}

#[test]
fn refused_head_requests_get_no_content() {
    let server = site();
    let large = format!("HEAD /a.txt HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(20_000));
    for request in [
        "HEAD /a.txt HTTP/1.1\r\n\r\n",
        "\r\nHEAD /a.txt HTTP/1.1\r\nHost : h\r\n\r\n",
        "HEAD /a.txt HTTP/2.0\r\nHost: h\r\n\r\n",
        "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        &large,
    ] {
        let received = server.raw(request.as_bytes());
        let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(received.len(), end, "{}", String::from_utf8_lossy(&received));
    }
}

#[test]
fn options_lists_the_methods_without_content() {
    let server = site();
    for target in ["*", "/a.txt", "/nothing", "http://localhost"] {
        let received = server.raw(
            format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        let (response, rest) = crate::harness::parse(&received, "GET");
        assert_eq!((response.status, rest.len()), (204, 0), "{target}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
        assert_eq!((response.field("Content-Length"), response.field("Transfer-Encoding")), (None, None));
    }
}

#[test]
fn request_content_is_ignored() {
    let server = site();
    let content = "GET /docs/ HTTP/1.1\r\nHost: h\r\n\r\n";
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        let bytes = format!(
            "{method} /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{content}\
             GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            content.len()
        );
        let responses = responses(&server, bytes.as_bytes(), &[method]);
        let alone = server.request(method, "/a.txt", "");
        assert_eq!((responses.len(), responses[0].status), (2, alone.status), "{method}");
        assert_eq!(responses[0].body, alone.body, "{method}");
        assert_eq!(responses[1].body, b"content", "{method}");
    }
}

#[test]
fn too_large_content_closes_the_connection() {
    let server = site();
    let bytes =
        b"GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\nGET /a.txt HTTP/1.1\r\n\r\n";
    let responses = responses(&server, bytes, &[]);
    assert_eq!(responses.len(), 1);
    assert_eq!((responses[0].status, responses[0].field("Connection")), (200, Some("close")));
}

/// Sends a head without its content and returns the bytes up to the end of the final status line.
fn send_head(head: &str) -> String {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&received).contains("405 Method Not Allowed\r\n") {
        let bytes = stream.read(&mut chunk).unwrap();
        assert!(bytes > 0, "closed after {:?}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&chunk[..bytes]);
    }
    String::from_utf8(received).unwrap()
}

#[test]
fn expect_100_continue_never_stalls() {
    let head = |version: &str, lines: &str| format!("PUT /a.txt {version}\r\nHost: h\r\n{lines}\r\n");
    let expects = "Expect: 100-continue\r\n";

    // The server will read the content to its end.
    let received = send_head(&head("HTTP/1.1", &format!("{expects}Content-Length: 10\r\n")));
    assert!(received.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 405 "), "{received}");
    let received = send_head(&head("HTTP/1.1", &format!("{expects}Transfer-Encoding: chunked\r\n")));
    assert!(received.starts_with("HTTP/1.1 100 Continue\r\n\r\n"), "{received}");

    // The server will not read the content and responds at once.
    let received = send_head(&head("HTTP/1.1", &format!("{expects}Content-Length: 1000000000\r\n")));
    assert!(
        received.starts_with("HTTP/1.1 405 ") && received.contains("Connection: close\r\n"),
        "{received}"
    );

    // There is no content, or the version is HTTP/1.0, which has no interim responses.
    let received = send_head(&head("HTTP/1.1", expects));
    assert!(received.starts_with("HTTP/1.1 405 "), "{received}");
    let received = send_head(&head("HTTP/1.0", &format!("{expects}Content-Length: 10\r\n")));
    assert!(received.starts_with("HTTP/1.1 405 "), "{received}");

    // The content arrives with the head.
    for content in ["0", "0123456789"] {
        let head = head("HTTP/1.1", &format!("{expects}Content-Length: 10\r\n"));
        let received = send_head(&format!("{head}{content}"));
        assert!(received.starts_with("HTTP/1.1 405 "), "{content}: {received}");
    }
}

#[test]
fn unknown_expectation_fails() {
    let server = site();
    assert_eq!(server.request("GET", "/a.txt", "Expect: 100-continue, miracles\r\n").status, 417);
    for value in ["100-continue", "100-CONTINUE", ", 100-continue", ""] {
        assert_eq!(server.request("GET", "/a.txt", &format!("Expect: {value}\r\n")).status, 200, "{value:?}");
    }
}
