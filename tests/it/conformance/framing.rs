//! Messages and connections: RFC 9112.

use std::io::{Read, Write};

use super::{answers, converse, site, statuses};
use crate::site::parse;

const LAST: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn empty_lines_before_a_request_line_are_passed_over() {
    assert_eq!(statuses(&site(), format!("\r\n\r\n{LAST}").as_bytes()), [200]);
}

#[test]
fn what_breaks_the_grammar_of_a_head_is_bad_and_ends_the_connection() {
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
        // A request behind it must not be answered.
        let bytes = format!("{head}{LAST}");
        let answers = answers(&server, bytes.as_bytes(), &[]);
        assert_eq!(answers.len(), 1, "{head:?}");
        assert_eq!((answers[0].status, answers[0].field("Connection")), (400, Some("close")), "{head:?}");
    }
}

#[test]
fn framing_that_cannot_be_relied_on_is_bad_and_ends_the_connection() {
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
        let answers = answers(&server, bytes.as_bytes(), &[]);
        assert_eq!(answers.len(), 1, "{lines:?}");
        assert_eq!((answers[0].status, answers[0].field("Connection")), (400, Some("close")), "{lines:?}");
    }
    let old = b"GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(statuses(&server, old), [400], "HTTP/1.0 has no transfer codings");
}

#[test]
fn a_transfer_coding_that_is_not_known_is_not_implemented() {
    let bytes =
        format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{LAST}");
    assert_eq!(statuses(&site(), bytes.as_bytes()), [501]);
}

#[test]
fn chunked_content_is_read_and_its_trailers_change_nothing() {
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
        let answers = answers(&server, bytes.as_bytes(), &[]);
        assert_eq!(answers.len(), 2, "{content:?}");
        assert!(
            answers.iter().all(|answer| answer.status == 200 && answer.body == b"content"),
            "{content:?}"
        );
    }
}

#[test]
fn bad_chunks_end_the_connection() {
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
fn content_that_does_not_come_whole_ends_the_connection() {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(b"PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf of it").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, false);
    assert_eq!((response.status, rest.len()), (405, 0));
}

#[test]
fn nothing_behind_a_close_is_answered() {
    let server = site();
    for options in ["close", "Close", "keep-alive, close", "foo,close", ", close"] {
        let bytes = format!(
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: {options}\r\n\r\n{LAST}GET / HTTP/1.0\r\n\r\n"
        );
        let answers = answers(&server, bytes.as_bytes(), &[]);
        assert_eq!(answers.len(), 1, "{options}");
        assert_eq!(answers[0].field("Connection"), Some("close"), "{options}");
    }
}

#[test]
fn a_connection_stays_open_unless_somebody_ends_it() {
    let server = site();
    let answers =
        converse(&server, b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", 2);
    assert!(answers.iter().all(|answer| answer.field("Connection").is_none()));
    // What HTTP/1.0 cannot rely on is said.
    let answers = converse(&server, b"GET /a.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1);
    assert_eq!(answers[0].field("Connection"), Some("keep-alive"));
    assert_eq!(statuses(&server, b"GET /a.txt HTTP/1.0\r\n\r\nGET /a.txt HTTP/1.0\r\n\r\n"), [200]);
}

#[test]
fn a_refusal_arrives_even_where_the_peer_goes_on_sending() {
    let server = site();
    let mut stream = server.connect();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost : h\r\n\r\n").unwrap();
    // Were the connection closed at once, this would be answered by a reset, which throws away what was not yet read.
    let piece = vec![b'x'; 64 * 1024];
    (0..64).for_each(|_| stream.write_all(&piece).unwrap());
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, false);
    assert_eq!((response.status, rest.len()), (400, 0));
}

#[test]
fn a_later_minor_version_is_read_as_ours_and_a_later_major_one_is_refused() {
    let server = site();
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let request = format!("GET /a.txt {version}\r\nHost: h\r\nConnection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes());
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{version}");
    }
    assert!(server.raw(b"GET /a.txt HTTP/1.0\r\n\r\n").starts_with(b"HTTP/1.1 200 OK\r\n"));
    for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/0.9"] {
        let request = format!("GET /a.txt {version}\r\nHost: h\r\n\r\n");
        let answer = &answers(&server, request.as_bytes(), &[])[0];
        assert_eq!(answer.status, 505, "{version}");
        let page = String::from_utf8_lossy(&answer.body);
        assert!(page.contains("HTTP/1.0") && page.contains("HTTP/1.1"), "which versions are spoken: {page}");
    }
}
