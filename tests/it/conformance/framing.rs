//! Message framing and connections: RFC 9112.

use std::io::{Read, Write};

use super::{exchange, responses, site, statuses};
use crate::harness::parse;

const LAST: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn empty_lines_before_a_request_are_ignored() {
    assert_eq!(statuses(&site(), format!("\r\n\r\n{LAST}").as_bytes()), [200]);
}

#[test]
fn malformed_heads_close_the_connection() {
    let server = site();
    for head in [
        "GET /a.txt HTTP/1.1\r\n Host: h\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\n\tHost: h\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA\t: b\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n",
        "GET /a.txt\r HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA: b\x01c\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA: b\x7fc\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nA@B: c\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\n: c\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nABC\r\n\r\n",
        "GET /a.txt http/1.1\r\nHost: h\r\n\r\n",
        "GET /a.txt HTTP/1.1 \r\nHost: h\r\n\r\n",
        "GET /a.txt HTTP/1\r\nHost: h\r\n\r\n",
        "GET /a.txt\r\n\r\n",
        "G\u{e4}T /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
    ] {
        // The request after it must get no response.
        let bytes = format!("{head}{LAST}");
        let responses = responses(&server, bytes.as_bytes(), &[]);
        assert_eq!(responses.len(), 1, "{head:?}");
        assert_eq!((responses[0].status, responses[0].field("Connection")), (400, Some("close")), "{head:?}");
    }
}

#[test]
fn ambiguous_framing_closes_the_connection() {
    let server = site();
    for lines in [
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked;a=b\r\n",
        "Transfer-Encoding:\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
    ] {
        let bytes = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{lines}\r\n0\r\n\r\n{LAST}");
        let responses = responses(&server, bytes.as_bytes(), &[]);
        assert_eq!(responses.len(), 1, "{lines:?}");
        assert_eq!(
            (responses[0].status, responses[0].field("Connection")),
            (400, Some("close")),
            "{lines:?}"
        );
    }

    let old = b"GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(statuses(&server, old), [400], "HTTP/1.0 has no transfer codings");
}

#[test]
fn unknown_transfer_coding_gets_501() {
    let bytes =
        format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{LAST}");
    assert_eq!(statuses(&site(), bytes.as_bytes()), [501]);
}

#[test]
fn chunked_content_and_trailers_are_ignored() {
    let server = site();
    for content in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;name=value;other=\"quoted\"\r\nhello\r\n0;last\r\n\r\n",
        "000005\r\nhello\r\n000\r\n\r\n",
        "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
        "0\r\nConnection: close\r\nHost: other\r\nContent-Length: 9\r\nRange: bytes=0-0\r\n\r\n",
    ] {
        let bytes =
            format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n{content}{LAST}");
        let responses = responses(&server, bytes.as_bytes(), &[]);
        assert_eq!(responses.len(), 2, "{content:?}");
        assert!(
            responses.iter().all(|response| response.status == 200 && response.body == b"content"),
            "{content:?}"
        );
    }
}

#[test]
fn malformed_chunks_close_the_connection() {
    let server = site();
    let long = format!("0;{}\r\n\r\n", "x".repeat(1000));
    for content in [
        "5\r\nhello0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello!\n0\r\n\r\n",
        "g\r\n\r\n",
        "-1\r\n\r\n",
        "0x0\r\n\r\n",
        "\r\n\r\n",
        "ffffffffffffffff1\r\n",
        "fffffffffffffffffffffffffffffffffffffffff\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\n: no name\r\n\r\n",
        "0\r\nName : value\r\n\r\n",
        "0\r\nName: value\r\n folded\r\n\r\n",
        &long,
    ] {
        let bytes =
            format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{content}{LAST}");
        assert_eq!(statuses(&server, bytes.as_bytes()), [400], "{content:?}");
    }
}

#[test]
fn incomplete_content_closes_the_connection() {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(b"PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nincomplete").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, "GET");
    assert_eq!((response.status, rest.len()), (405, 0));
}

#[test]
fn requests_after_close_get_no_response() {
    let server = site();
    for options in ["close", "Close", "keep-alive, close", "foo,close", ", close"] {
        let bytes = format!(
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: {options}\r\n\r\n{LAST}GET / HTTP/1.0\r\n\r\n"
        );
        let responses = responses(&server, bytes.as_bytes(), &[]);
        assert_eq!(responses.len(), 1, "{options}");
        assert_eq!(responses[0].field("Connection"), Some("close"), "{options}");
    }
}

#[test]
fn connections_persist_by_default() {
    let server = site();
    let responses =
        exchange(&server, b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", 2);
    assert!(responses.iter().all(|response| response.field("Connection").is_none()));
}

#[test]
fn http_1_0_connections_persist_on_request() {
    let server = site();
    let responses = exchange(&server, b"GET /a.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1);
    assert_eq!(responses[0].field("Connection"), Some("keep-alive"));
    assert_eq!(statuses(&server, b"GET /a.txt HTTP/1.0\r\n\r\nGET /a.txt HTTP/1.0\r\n\r\n"), [200]);
}

#[test]
fn refusal_arrives_although_the_client_keeps_sending() {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost : h\r\n\r\n").unwrap();
    // If the server closed the connection at once, the kernel would reset it, and the client would lose the response.
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..64 {
        stream.write_all(&piece).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, "GET");
    assert_eq!((response.status, rest.len()), (400, 0));
}

#[test]
fn minor_versions_are_accepted_and_major_refused() {
    let server = site();
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let request = format!("GET /a.txt {version}\r\nHost: h\r\nConnection: close\r\n\r\n");
        let response = server.raw(request.as_bytes());
        assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"), "{version}");
    }
    assert!(server.raw(b"GET /a.txt HTTP/1.0\r\n\r\n").starts_with(b"HTTP/1.1 200 OK\r\n"));
    for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/0.9"] {
        let request = format!("GET /a.txt {version}\r\nHost: h\r\n\r\n");
        let response = &responses(&server, request.as_bytes(), &[])[0];
        assert_eq!(response.status, 505, "{version}");
        let page = String::from_utf8_lossy(&response.body);
        assert!(
            page.contains("HTTP/1.0") && page.contains("HTTP/1.1"),
            "the page names the supported versions: {page}"
        );
    }
}
