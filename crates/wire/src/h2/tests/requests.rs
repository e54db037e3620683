//! Tests with valid, refused and malformed request heads (RFC 9113 §8.2, §8.3).

use cannery_testkit::http2::{PROTOCOL_ERROR, field_block};

use super::peer::{Frame, Peer, get, in_frames, last_headers, request};
use crate::request::refusal::Refusal;

/// Returns the status or the code of the reset, along with the refusal (if any).
fn outcome(fields: &[(&str, &str)]) -> (Result<u16, u32>, Option<Refusal>) {
    let mut peer = Peer::open();
    let frames = peer.send(&last_headers(1, fields));
    let refusal = peer.refused.first().map(|(_, refusal)| *refusal);
    match frames.first() {
        Some(Frame::Headers(1, status, _)) => (Ok(*status), refusal),
        Some(Frame::Reset(1, code)) => (Err(*code), refusal),
        other => panic!("{fields:?}: {other:?}"),
    }
}

fn is_malformed(fields: &[(&str, &str)]) -> bool {
    outcome(fields) == (Err(PROTOCOL_ERROR), None)
}

/// Returns a request with one of the pseudo-header fields replaced or removed.
fn with(name: &'static str, value: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
    let mut fields = request("/0", &[]);
    match value {
        Some(value) => fields.iter_mut().filter(|field| field.0 == name).for_each(|field| field.1 = value),
        None => fields.retain(|field| field.0 != name),
    }
    fields
}

#[test]
fn pseudo_header_fields_come_once_and_first() {
    for name in [":method", ":scheme", ":path"] {
        assert!(is_malformed(&with(name, None)), "{name} is missing");
        let mut twice = request("/0", &[]);
        let field = *twice.iter().find(|field| field.0 == name).unwrap();
        twice.insert(0, field);
        assert!(is_malformed(&twice), "{name} is repeated");
        let mut late = with(name, None);
        late.extend([("accept", "*/*"), field]);
        assert!(is_malformed(&late), "{name} is late");
    }
    assert!(is_malformed(&request("/0", &[(":authority", "a.example")])));
    for name in [":status", ":protocol", ":", ":other"] {
        let mut fields = request("/0", &[]);
        fields.insert(0, (name, "200"));
        assert!(is_malformed(&fields), "{name}");
    }
}

#[test]
fn pseudo_header_fields_have_valid_values() {
    for (name, value) in [
        (":path", ""),
        (":path", "a"),
        (":path", "http://a.example/"),
        (":path", "/a b"),
        (":path", "/a\u{7f}"),
        (":method", ""),
        (":method", "G T"),
        (":method", "GET\u{e9}"),
    ] {
        assert!(is_malformed(&with(name, Some(value))), "{name}: {value}");
    }
    assert_eq!(outcome(&with(":path", Some("*"))), (Ok(404), None));
    assert_eq!(outcome(&with(":scheme", Some("http"))), (Ok(200), None));
    assert_eq!(outcome(&with(":scheme", Some("HTTPS"))), (Ok(200), None));
    assert_eq!(outcome(&with(":scheme", Some("ftp"))), (Ok(421), Some(Refusal::Scheme)));
}

#[test]
fn connect_has_neither_scheme_nor_path() {
    let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
    let mut peer = Peer::open();
    peer.send(&last_headers(1, &connect));
    assert_eq!(peer.targets, ["a.example:443"], "RFC 9113 §8.5");
    assert!(is_malformed(&with(":method", Some("CONNECT"))));
    assert!(is_malformed(&connect[..1]));
}

#[test]
fn authority_and_host_must_agree() {
    let host = |fields: &[(&str, &str)]| outcome(fields);
    assert_eq!(host(&request("/0", &[("host", "A.example")])), (Ok(200), None));
    let (refused, agreed) = ((Ok(400), Some(Refusal::Host)), (Ok(200), None));
    assert_eq!(host(&request("/0", &[("host", "b.example")])), refused);
    assert_eq!(host(&request("/0", &[("host", "a.example"), ("host", "a.example")])), refused);
    let mut without = with(":authority", None);
    assert_eq!(host(&without), refused);
    without.push(("host", "a.example"));
    assert_eq!(host(&without), agreed);
    for none in ["user@a.example", "", ":80"] {
        assert_eq!(host(&with(":authority", Some(none))), refused, "RFC 9113 §8.3.1: {none:?}");
    }
}

#[test]
fn connection_specific_fields_are_malformed() {
    for field in [
        ("connection", "keep-alive"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        assert!(is_malformed(&request("/0", &[field])), "{field:?}: RFC 9113 §8.2.2");
    }
    assert_eq!(outcome(&request("/0", &[("te", "Trailers")])), (Ok(200), None));
}

#[test]
fn names_and_values_follow_the_grammar() {
    for field in [
        ("Accept", "*/*"),
        ("", "a"),
        ("a b", "c"),
        ("a\0", "c"),
        ("a", " b"),
        ("a", "b "),
        ("a", "b\r\nc"),
        ("a", "b\0"),
        ("content-length", "+5"),
        ("content-length", ""),
        ("content-length", "5, 5"),
    ] {
        assert!(is_malformed(&request("/0", &[field])), "{field:?}: RFC 9113 §8.2.1");
    }
    assert!(is_malformed(&request("/0", &[("content-length", "0"), ("content-length", "0")])));
}

#[test]
fn refused_requests_get_a_response() {
    let long_path = format!("/{}", "x".repeat(crate::limits::TARGET_BYTES_MAX));
    let long_value = "x".repeat(crate::limits::FIELD_LIST_BYTES_MAX);
    let long_method = "M".repeat(crate::limits::METHOD_BYTES_MAX + 1);
    let many = vec![("a", "b"); crate::limits::FIELDS_MAX + 1];
    let mut with_method = request("/0", &[]);
    with_method[0].1 = &long_method;

    for (fields, refusal) in [
        (request(&long_path, &[]), Refusal::TargetTooLong),
        (request("/0", &[("a", &long_value)]), Refusal::HeadTooLarge),
        (request("/0", &many), Refusal::HeadTooLarge),
        (request("/0", &[("if-match", "*"); 5]), Refusal::HeadTooLarge),
        (request("/0", &[("expect", "miracles")]), Refusal::Expectation),
        (with_method, Refusal::Method),
    ] {
        let mut peer = Peer::open();
        let block = field_block(&fields);
        let frames = peer.send(&in_frames(1, &block, 16_384));
        assert_eq!(peer.refused, [(1, refusal)]);
        assert!(
            matches!(frames[0], Frame::Headers(1, status, _) if status == refusal.status()),
            "{frames:?}"
        );
        // The connection stays open with a dynamic table that is still valid.
        assert_eq!(peer.send(&get(3, "/0")), [Frame::Headers(3, 200, true)]);
    }

    assert_eq!(outcome(&request("/0", &[("expect", "100-continue")])), (Ok(200), None));
}

#[test]
fn refused_head_request_gets_no_content() {
    let mut fields = request("/0", &[("expect", "miracles")]);
    fields[0].1 = "HEAD";
    assert_eq!(Peer::open().send(&last_headers(1, &fields)), [Frame::Headers(1, 417, true)]);
}

#[test]
fn head_has_every_field_that_a_site_uses() {
    let fields = request(
        "/a?b",
        &[
            ("accept-encoding", "br"),
            ("cookie", "secret"),
            ("accept-encoding", "gzip"),
            ("if-none-match", "\"x\""),
            ("if-match", "*"),
            ("range", "bytes=0-1"),
            ("if-range", "\"y\""),
            ("if-modified-since", "then"),
            ("if-unmodified-since", "now"),
            ("referer", "r"),
            ("user-agent", "u"),
        ],
    );

    let mut peer = Peer::open();
    peer.send(&last_headers(1, &fields));
    let head = peer.store.head();
    let request = head.request;
    assert_eq!((head.method_name, request.target), (b"GET".as_slice(), b"/a?b".as_slice()));
    assert_eq!(request.host, Some(b"a.example".as_slice()));
    assert_eq!(request.accept_encoding.lines().collect::<Vec<_>>(), [b"br".as_slice(), b"gzip"]);
    assert_eq!((head.referer, head.user_agent), (Some(b"r".as_slice()), Some(b"u".as_slice())));

    let conditions = request.conditions;
    assert!(conditions.any);
    assert_eq!(conditions.if_none_match.lines().collect::<Vec<_>>(), [b"\"x\""]);
    assert_eq!(conditions.if_match.lines().collect::<Vec<_>>(), [b"*"]);
    for (single, value) in [
        (conditions.range, "bytes=0-1"),
        (conditions.if_range, "\"y\""),
        (conditions.if_modified_since, "then"),
        (conditions.if_unmodified_since, "now"),
    ] {
        assert_eq!(single, cannery_site::Single::Value(value.as_bytes()));
    }

    // The next request does not have any of it.
    peer.send(&get(3, "/c"));
    let head = peer.store.head();
    assert!(!head.request.conditions.any && head.request.accept_encoding.is_absent());
    assert_eq!((head.referer, head.user_agent), (None, None));
}
