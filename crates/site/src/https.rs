//! Redirects from `http` to `https`, keeping both host and target.
//!
//! Challenges of certificate authorities and the heartbeat for monitors should not be redirected.

use crate::answer::location::{LOCATION_BYTES_MAX, Location};
use crate::answer::{Answer, Reason};
use crate::request::Request;
use crate::request::target::Target;
use crate::site::Scratch;

/// Path prefix at which certificate authorities request ACME challenges, using plain HTTP (RFC 8555 §8.3).
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// Path at which load balancers request the heartbeat. They use plain HTTP and will not follow redirects.
const HEARTBEAT: &[u8] = b"/__/heartbeat";

/// Redirects a plain HTTP request to `https` at `port`.
///
/// Returns `None` if there cannot or should not be a redirect: the target is malformed, there is no host, or it is a challenge or
/// the heartbeat.
#[must_use]
#[cold]
pub fn https_redirect<'a>(request: &Request<'a>, port: u16, scratch: &mut Scratch) -> Option<Answer<'a>> {
    let target = Target::parse(request.target)?;
    // We need to check the normalized path, because `..` could lead out of the directory.
    let is_exempt =
        |path: &[u8]| path.starts_with(CHALLENGES) || path.strip_suffix(b"/").unwrap_or(path) == HEARTBEAT;
    if target.key(&mut scratch.current.key).is_ok_and(|key| is_exempt(key.bytes())) {
        return None;
    }

    let location = Location::https(target.host(request.host)?, port, target.path, target.query);
    let answer = if location.length() > LOCATION_BYTES_MAX {
        Answer::built_in(414, Reason::LongLocation)
    } else {
        Answer::redirect(308, location, Reason::Https)
    };
    Some(answer.for_method(request.method))
}

#[cfg(test)]
mod tests;
