//! Redirects from `http` to `https`, with the same host and target.
//!
//! Challenges of certificate authorities are not redirected, nor is the heartbeat for monitors.

use crate::answer::{Answer, Reason};
use crate::location::{LOCATION_BYTES_MAX, Location};
use crate::request::{Method, Request};
use crate::site::Scratch;
use crate::target::Target;

/// The path of ACME challenges, which certificate authorities request over plain HTTP (RFC 8555 §8.3).
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// The path of the heartbeat. Load balancers request it over plain HTTP, and don't follow redirects.
const HEARTBEAT: &[u8] = b"/__/heartbeat";

/// Returns the redirect of a plain HTTP request to `https` at `port`.
///
/// Returns `None` if the request is not redirected: it is for a challenge or the heartbeat, its target is malformed, or it has no host.
#[must_use]
#[cold]
pub fn https_redirect<'a>(request: &Request<'a>, port: u16, scratch: &mut Scratch) -> Option<Answer<'a>> {
    let target = Target::parse(request.target)?;
    // The normalized path decides, because `..` could lead out of the directory.
    let is_exempt =
        |path: &[u8]| path.starts_with(CHALLENGES) || path.strip_suffix(b"/").unwrap_or(path) == HEARTBEAT;
    if target.key(&mut scratch.current.key).is_ok_and(|key| is_exempt(key.bytes())) {
        return None;
    }
    let location = Location::https(target.host(request.host)?, port, target.path, target.query);
    if location.length() > LOCATION_BYTES_MAX {
        return Some(Answer::built_in(414, Reason::LongLocation));
    }
    let answer = Answer::redirect(308, location, Reason::Https);
    Some(if request.method == Method::Head { answer.without_body() } else { answer })
}

#[cfg(test)]
mod tests;
