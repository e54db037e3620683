//! The way from `http` to `https`: the same host and target, by the other scheme.
//!
//! Looks into no archive. What a certificate authority asks for in the clear stays there.

use crate::Scratch;
use crate::answer::{Answer, Reason};
use crate::location::{LOCATION_BYTES_MAX, Location};
use crate::request::{Method, Request};
use crate::target::Target;

/// Where certificate authorities look for proofs (RFC 8555 §8.3): they ask in the clear.
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// The answer that sends a client from the open port to `https` at this port. Returns `None` if the request is answered
/// where it is: a challenge, a target that is no path, a request that names no host.
#[must_use]
#[cold]
pub fn https_redirect<'a>(request: &Request<'a>, port: u16, scratch: &mut Scratch) -> Option<Answer<'a>> {
    let target = Target::parse(request.target)?;
    // What the path leads to counts, and not how it is spelled: `..` leads out of the folder.
    if target.key(&mut scratch.current.key).is_ok_and(|key| key.bytes().starts_with(CHALLENGES)) {
        return None;
    }
    let location = Location::of_https(target.host(request.host)?, port, target.path, target.query);
    if location.length() > LOCATION_BYTES_MAX {
        return Some(Answer::built_in(414, Reason::LongLocation));
    }
    let answer = Answer::redirect(308, location, Reason::Https);
    Some(if request.method == Method::Head { answer.without_body() } else { answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Fields;

    fn location(host: Option<&str>, target: &str, port: u16) -> Option<String> {
        let request =
            Request { host: host.map(str::as_bytes), ..Request::new(Method::Get, target.as_bytes()) };
        let Fields::Redirect(location) = https_redirect(&request, port, &mut Scratch::default())?.fields
        else {
            return None;
        };
        let mut spelled = Vec::new();
        location.for_each_piece(&mut |bytes| spelled.extend_from_slice(bytes));
        Some(String::from_utf8(spelled).unwrap())
    }

    #[test]
    fn host_and_target_stay_and_the_port_is_the_other_one() {
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
    fn what_has_no_other_place_is_answered_here() {
        assert_eq!(location(Some("h"), "/.well-known/acme-challenge/token", 443), None);
        assert_eq!(location(Some("h"), "/.well-known/./acme-challenge/%74oken", 443), None);
        for target in
            ["/.well-known/acme-challenge/../x", "/.well-known/acme-challenge/%2e%2e/%2E%2e/index.html"]
        {
            assert!(location(Some("h"), target, 443).is_some(), "{target}");
        }
        assert_eq!(location(Some("h"), "*", 443), None);
        assert_eq!(location(None, "/", 443), None);
        assert!(location(Some("h"), "/.well-known/security.txt", 443).is_some());
    }

    #[test]
    fn a_location_longer_than_we_read_is_not_sent() {
        let target = format!("/{}", "\"".repeat(LOCATION_BYTES_MAX / 2));
        let request = Request { host: Some(b"h"), ..Request::new(Method::Get, target.as_bytes()) };
        assert_eq!(
            https_redirect(&request, 443, &mut Scratch::default()).map(|answer| answer.status),
            Some(414)
        );
    }
}
