//! Tests for the parser of HTTP/1 request heads.

use super::*;
use proptest::prelude::*;

fn head(input: &str) -> Head<'_> {
    let mut head = Head::EMPTY;
    match parse(input.as_bytes(), &mut head, false) {
        Parsed::Head(length) => {
            assert_eq!(length, input.len(), "the head takes all of the input");
            head
        }
        other => panic!("{input:?} is {other:?}"),
    }
}

fn refusal(input: &str) -> Refusal {
    match parse(input.as_bytes(), &mut { Head::EMPTY }, false) {
        Parsed::Refused(refusal) => refusal,
        other => panic!("{input:?} is {other:?}"),
    }
}

#[test]
fn plain_request() {
    let head = head("GET /a?b HTTP/1.1\r\nHost: h:80\r\nAccept-Encoding:  br, gzip \r\n\r\n");
    assert_eq!(head.common.request.method, Method::Get);
    assert_eq!(head.common.request.target, b"/a?b");
    assert_eq!(head.common.request.host, Some(b"h:80".as_slice()));
    assert_eq!(head.common.request.accept_encoding.lines().collect::<Vec<_>>(), [b"br, gzip"]);
    assert!(head.keep_alive && head.common.version == Version::Http11);
    assert_eq!(head.framing, Framing::Length(0));
}

#[test]
fn reused_head_keeps_no_earlier_fields() {
    let full = "POST http://a/b HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nAccept-Encoding: br\r\n\
        Content-Length: 5\r\nExpect: 100-continue\r\nReferer: r\r\nUser-Agent: u\r\nIf-Match: *\r\n\
        If-None-Match: *\r\nIf-Range: x\r\nRange: bytes=0-\r\n\r\n";
    let mut used = head(full);
    let plain = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    assert!(matches!(parse(plain.as_bytes(), &mut used, false), Parsed::Head(_)));
    let (used, fresh) = (used, head(plain));
    assert_eq!(used.common.request.accept_encoding.lines().count(), 0);
    let without_values = |mut head: Head<'_>| {
        head.common.request.accept_encoding = Values::NONE;
        format!("{head:?}")
    };
    assert_eq!(without_values(used), without_values(fresh));
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    assert_eq!(head("\r\n\r\nGET / HTTP/1.0\r\n\r\n").common.request.target, b"/");
}

#[test]
fn keep_alive_depends_on_version_and_options() {
    for (input, expected) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: foo, CLOSE\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false),
    ] {
        assert_eq!(head(input).keep_alive, expected, "{input:?}");
    }
}

#[test]
fn ambiguous_requests_are_refused() {
    use Refusal::{Expectation, FieldLine, Framing, Host, RequestLine, Scheme, TransferCoding, Version};

    for (fields, expected) in [
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Framing),
        ("Content-Length: 1\r\nContent-Length: 1\r\n", Framing),
        ("Content-Length: 1, 1\r\n", Framing),
        ("Content-Length: +1\r\n", Framing),
        ("Content-Length: 0x1\r\n", Framing),
        ("Content-Length:\r\n", Framing),
        ("Content-Length: 99999999999999999999\r\n", Framing),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Framing),
        ("Transfer-Encoding: gzip, chunked\r\n", TransferCoding),
        ("Transfer-Encoding: gzip\r\n", Framing),
        ("Transfer-Encoding: chunked, gzip\r\n", Framing),
        ("Transfer-Encoding: chunked, chunked\r\n", Framing),
        ("Transfer-Encoding: ,chunked\r\n", Framing),
        ("Transfer-Encoding: chunked;q=1\r\n", Framing),
        ("Transfer-Encoding: xchunked\r\n", Framing),
        ("Transfer-Encoding:\r\n", Framing),
        ("A : b\r\n", FieldLine),
        (" A: b\r\n", FieldLine),
        ("A: b\r\n c\r\n", FieldLine),
        ("A: b\nC: d\r\n", FieldLine),
        ("A: b\rc\r\n", FieldLine),
        ("A: \0\r\n", FieldLine),
        (": b\r\n", FieldLine),
        ("A\r\n", FieldLine),
        ("Host: i\r\n", Host),
        ("Expect: miracles\r\n", Expectation),
        ("Expect: 100-continue, miracles\r\n", Expectation),
    ] {
        assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")), expected, "{fields:?}");
    }

    for (input, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", Host),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Host),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Host),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", Host),
        ("GET / HTTP/1.1\r\nHost: a%zz\r\n\r\n", Host),
        ("GET / HTTP/1.1\r\nHost: [::zz]\r\n\r\n", Host),
        ("GET http://a%zz/ HTTP/1.1\r\n", RequestLine),
        ("GET http://[::zz]/ HTTP/1.1\r\n", RequestLine),
        ("GET  / HTTP/1.1\r\n", RequestLine),
        ("GET /a b HTTP/1.1\r\n", RequestLine),
        ("GET / HTTP/1.1\n", RequestLine),
        ("GET /\r\n", RequestLine),
        ("G@T / HTTP/1.1\r\n", RequestLine),
        (" GET / HTTP/1.1\r\n", RequestLine),
        ("GET / http/1.1\r\n", RequestLine),
        ("GET / HTTP/11\r\n", RequestLine),
        ("GET / HTTP/2.0\r\n", Version),
        ("\nGET / HTTP/1.1\r\n", RequestLine),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Framing),
        ("GET http://user@h/ HTTP/1.1\r\n", RequestLine),
        ("GET http://user:word@h/ HTTP/1.1\r\n", RequestLine),
        ("GET http://:80/ HTTP/1.1\r\n", RequestLine),
        ("GET http://h:8o/ HTTP/1.1\r\n", RequestLine),
        ("GET http://[::1/ HTTP/1.1\r\n", RequestLine),
        ("GET HTTPS://h/ HTTP/1.1\r\n", Scheme),
    ] {
        assert_eq!(refusal(input), expected, "{input:?}");
    }
}

#[test]
fn https_targets_need_an_encrypted_connection() {
    let input = b"GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n";
    assert!(matches!(parse(input, &mut { Head::EMPTY }, true), Parsed::Head(_)));
    assert!(matches!(parse(input, &mut { Head::EMPTY }, false), Parsed::Refused(Refusal::Scheme)));
}

#[test]
fn expectations_are_a_list() {
    for (value, expected) in
        [("100-continue", true), ("100-Continue", true), (", 100-continue ,", true), ("", false)]
    {
        let input = format!("PUT / HTTP/1.1\r\nHost: h\r\nExpect: {value}\r\n\r\n");
        assert_eq!(head(&input).expects_continue, expected, "{value:?}");
    }
}

#[test]
fn hosts_of_every_form_are_accepted() {
    for host in ["h", "h:80", "h:", "", "127.0.0.1:8080", "[::1]", "[::1]:8080", "xn--bcher-kva.example"] {
        assert_eq!(
            head(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).common.request.host,
            Some(host.as_bytes())
        );
    }
}

#[test]
fn limits_have_their_own_refusals() {
    let long = "a".repeat(TARGET_BYTES_MAX);
    assert_eq!(refusal(&format!("GET /{long} HTTP/1.1\r\n")), Refusal::TargetTooLong);
    assert_eq!(refusal(&format!("GET /{long}")), Refusal::TargetTooLong);
    let long = "A".repeat(METHOD_BYTES_MAX + 1);
    assert_eq!(refusal(&long), Refusal::Method);
    assert_eq!(refusal(&format!("{long} / HTTP/1.1\r\n\r\n")), Refusal::Method);
    let fields = "A: b\r\n".repeat(FIELDS_MAX + 1);
    assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")), Refusal::HeadTooLarge);
    let large = "b".repeat(HEAD_BYTES_MAX);
    assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nA: {large}")), Refusal::HeadTooLarge);
    assert_eq!(refusal(&format!("GET / HTTP/1.0\r\nA: {large}\r\n\r\n")), Refusal::HeadTooLarge);
}

#[test]
fn incomplete_request_needs_more() {
    let whole = "GET /index.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\n\r\n";
    for length in 0..whole.len() {
        assert!(
            matches!(parse(&whole.as_bytes()[..length], &mut { Head::EMPTY }, false), Parsed::More),
            "{length} bytes"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Parsed::Head(length) = parse(&input, &mut { Head::EMPTY }, false) {
            prop_assert!(length <= input.len());
        }
    }

    #[test]
    fn bytes_after_a_head_do_not_change_it(tail in proptest::collection::vec(any::<u8>(), 0..50)) {
        let head = b"HEAD /x HTTP/1.1\r\nhost: h\r\n\r\n";
        let input = [head.as_slice(), &tail].concat();
        let mut parsed = Head::EMPTY;
        prop_assert!(matches!(parse(&input, &mut parsed, false), Parsed::Head(length) if length == head.len()));
        prop_assert_eq!(parsed.common.request.method, Method::Head);
    }
}
