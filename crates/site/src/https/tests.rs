//! Tests where redirects point to, and which requests are not redirected.

use super::*;
use crate::answer::{Body, Fields};
use crate::request::Method;

fn location(host: Option<&str>, target: &str, port: u16) -> Option<String> {
    let request = Request { host: host.map(str::as_bytes), ..Request::new(Method::Get, target.as_bytes()) };
    let Fields::Redirect(location) = https_redirect(&request, port, &mut Scratch::default())?.fields else {
        return None;
    };
    let mut bytes = Vec::new();
    location.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn redirect_keeps_host_and_target() {
    for (host, target, port, expected) in [
        ("example.com", "/", 443, "https://example.com/"),
        ("example.com:80", "/a/b?c=d&e", 443, "https://example.com/a/b?c=d&e"),
        ("example.com:8080", "/a%20b", 8443, "https://example.com:8443/a%20b"),
        ("[::1]:80", "/", 8443, "https://[::1]:8443/"),
        ("ignored", "http://example.com/x?", 443, "https://example.com/x"),
        ("h", "/a\"b\u{e9}", 443, "https://h/a%22b%C3%A9"),
    ] {
        assert_eq!(location(Some(host), target, port).as_deref(), Some(expected), "{host} {target}");
    }
}

#[test]
fn challenges_heartbeats_and_malformed_requests_are_not_redirected() {
    assert_eq!(location(Some("h"), "/.well-known/acme-challenge/token", 443), None);
    assert_eq!(location(Some("h"), "/.well-known/./acme-challenge/%74oken", 443), None);
    for target in ["/.well-known/acme-challenge/../x", "/.well-known/acme-challenge/%2e%2e/%2E%2e/index.html"]
    {
        assert!(location(Some("h"), target, 443).is_some(), "{target}");
    }
    assert_eq!(location(Some("h"), "/__/heartbeat", 443), None);
    assert_eq!(location(Some("h"), "/__/heartbeat/", 443), None);
    assert!(location(Some("h"), "/__/heartbeat/x", 443).is_some());
    assert_eq!(location(Some("h"), "*", 443), None);
    assert_eq!(location(None, "/", 443), None);
    assert!(location(Some("h"), "/.well-known/security.txt", 443).is_some());
}

#[test]
fn long_location_is_refused() {
    let target = format!("/{}", "\"".repeat(LOCATION_BYTES_MAX / 2));
    let request = Request { host: Some(b"h"), ..Request::new(Method::Get, target.as_bytes()) };
    assert_eq!(https_redirect(&request, 443, &mut Scratch::default()).map(|answer| answer.status), Some(414));

    let request = Request { method: Method::Head, ..request };
    let answer = https_redirect(&request, 443, &mut Scratch::default()).unwrap();
    assert!(answer.status == 414 && matches!(answer.body, Body::Empty));
}
