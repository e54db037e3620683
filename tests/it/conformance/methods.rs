//! Methods and expectations: RFC 9110 §9 and §10.1.1, RFC 9112 §3.

use std::io::{Read, Write};

use super::{answers, site, statuses};

#[test]
fn names_of_methods_are_compared_letter_by_letter() {
    let server = site();
    for (method, status) in
        [("get", 501), ("Get", 501), ("GETX", 501), ("PROPFIND", 501), ("PATCH", 405), ("TRACE", 405)]
    {
        let response = server.ask(method, "/a.txt", "");
        assert_eq!(response.status, status, "{method}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
    let long = "A".repeat(20_000);
    assert_eq!(statuses(&server, format!("{long} /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()), [501]);
}

#[test]
fn a_trace_shows_nothing_of_the_request() {
    let response = site().ask("TRACE", "/a.txt", "Cookie: secret-of-mine\r\n");
    assert_eq!(response.status, 405);
    assert!(!String::from_utf8_lossy(&response.body).contains("secret-of-mine"));
}

#[test]
fn no_tunnel_is_opened() {
    let server = site();
    for target in ["localhost:80", "localhost", "localhost:", "localhost:99999"] {
        let status = server.ask("CONNECT", target, "").status;
        assert!((400..500).contains(&status), "{target}: {status}");
    }
}

#[test]
fn an_answer_to_head_has_no_content_whatever_it_is() {
    let server = site();
    for target in ["/page.html", "/a.txt", "/nothing", "/nothing.js", "/docs", "/old", "/gone/x", "/%zz"] {
        for line in ["", "Accept-Encoding: br\r\n", "If-None-Match: *\r\n", "If-Match: \"x\"\r\n"] {
            let (head, get) = (server.ask("HEAD", target, line), server.ask("GET", target, line));
            assert_eq!(head.status, get.status, "{target} {line:?}");
            let without_date = |fields: &[(String, String)]| -> Vec<_> {
                fields.iter().filter(|(name, _)| name != "Date").cloned().collect()
            };
            assert_eq!(without_date(&head.fields), without_date(&get.fields), "{target} {line:?}");
        }
    }
}

#[test]
fn a_refused_head_request_is_answered_without_content_as_well() {
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
fn options_names_what_there_is_and_has_no_content() {
    let server = site();
    for target in ["*", "/a.txt", "/nothing", "http://localhost"] {
        let received = server.raw(
            format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        let (response, rest) = crate::site::parse(&received, false);
        assert_eq!((response.status, rest.len()), (204, 0), "{target}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
        assert_eq!((response.field("Content-Length"), response.field("Transfer-Encoding")), (None, None));
    }
}

#[test]
fn content_changes_no_answer() {
    let server = site();
    let content = "GET /docs/ HTTP/1.1\r\nHost: h\r\n\r\n";
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        let bytes = format!(
            "{method} /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{content}\
             GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            content.len()
        );
        let answers = answers(&server, bytes.as_bytes(), &[method == "HEAD"]);
        let alone = server.ask(method, "/a.txt", "");
        assert_eq!((answers.len(), answers[0].status), (2, alone.status), "{method}");
        assert_eq!(answers[0].body, alone.body, "{method}");
        assert_eq!(answers[1].body, b"content", "{method}");
    }
}

#[test]
fn content_that_is_too_much_is_not_read_and_the_connection_ends() {
    let server = site();
    let bytes =
        b"GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\nGET /a.txt HTTP/1.1\r\n\r\n";
    let answers = answers(&server, bytes, &[]);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].status, answers[0].field("Connection")), (200, Some("close")));
}

/// Sends a head, and reads what comes before any content was sent.
fn before_content(head: &str) -> String {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&received).contains("405 Method Not Allowed\r\n") {
        let bytes = stream.read(&mut chunk).unwrap();
        assert!(bytes > 0, "closed behind {:?}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&chunk[..bytes]);
    }
    String::from_utf8(received).unwrap()
}

#[test]
fn who_waits_to_continue_is_never_left_waiting() {
    let head = |version: &str, lines: &str| format!("PUT /a.txt {version}\r\nHost: h\r\n{lines}\r\n");
    let expects = "Expect: 100-continue\r\n";
    // The content will be read to its end: it may come.
    let said = before_content(&head("HTTP/1.1", &format!("{expects}Content-Length: 10\r\n")));
    assert!(said.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 405 "), "{said}");
    let said = before_content(&head("HTTP/1.1", &format!("{expects}Transfer-Encoding: chunked\r\n")));
    assert!(said.starts_with("HTTP/1.1 100 Continue\r\n\r\n"), "{said}");
    // It will not be: the answer says so at once.
    let said = before_content(&head("HTTP/1.1", &format!("{expects}Content-Length: 1000000000\r\n")));
    assert!(said.starts_with("HTTP/1.1 405 ") && said.contains("Connection: close\r\n"), "{said}");
    // There is none to wait for, or HTTP/1.0 knows of no such thing.
    let said = before_content(&head("HTTP/1.1", expects));
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
    let said = before_content(&head("HTTP/1.0", &format!("{expects}Content-Length: 10\r\n")));
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
    // It is on its way already.
    for content in ["0", "0123456789"] {
        let head = head("HTTP/1.1", &format!("{expects}Content-Length: 10\r\n"));
        let said = before_content(&format!("{head}{content}"));
        assert!(said.starts_with("HTTP/1.1 405 "), "{content}: {said}");
    }
}

#[test]
fn an_expectation_that_is_not_known_fails() {
    let server = site();
    assert_eq!(server.ask("GET", "/a.txt", "Expect: 100-continue, miracles\r\n").status, 417);
    for value in ["100-continue", "100-CONTINUE", ", 100-continue", ""] {
        assert_eq!(server.ask("GET", "/a.txt", &format!("Expect: {value}\r\n")).status, 200, "{value:?}");
    }
}
