//! Splits request targets into authority, path and query. This supports both origin form and absolute form (RFC 9112 §3.2).
//!
//! A malformed target is refused. We do not try to repair it.

use cannery_archive::{Key, KeyBuffer, PathError};
use cannery_base::swar::{self, eq_mask};

/// A request target, split but not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The authority of a target in absolute form, which overrides `Host` (RFC 9112 §3.2.2).
    pub authority: Option<&'a [u8]>,
    /// The path, starting with `/`.
    pub path: &'a [u8],
    /// The query, without `?`.
    pub query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Parses a target.
    ///
    /// Returns `None` if the target does not have one of these forms, or if it has a fragment. Fragments are not allowed (RFC 9112
    /// §3.2), and other parsers may treat `#` as part of the path.
    #[must_use]
    // Inlined because this is on the request path, and the parts should stay in registers.
    #[inline(always)]
    pub fn parse(target: &'a [u8]) -> Option<Target<'a>> {
        let (authority, rest) = if target.first() == Some(&b'/') {
            (None, target)
        } else {
            let rest = strip_scheme(target)?;
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            (Some(authority).filter(|authority| !authority.is_empty())?.into(), rest)
        };

        let path_bytes = path_end(rest).unwrap_or(rest.len());
        let (path, rest) = rest.split_at(path_bytes);

        let query = match rest {
            [] => None,
            [b'?', query @ ..] if !query.contains(&b'#') => Some(query),
            _ => return None,
        };
        Some(Target { authority, path: if path.is_empty() { b"/" } else { path }, query })
    }

    /// Normalizes the path.
    ///
    /// # Errors
    /// Fails if the path is malformed or too long.
    #[inline]
    pub fn key<'k>(&self, buffer: &'k mut KeyBuffer) -> Result<Key<'k>, PathError>
    where
        'a: 'k,
    {
        Key::from_target(self.path, buffer)
    }

    /// Returns the requested host without the port. If it is not in the target, it is from the `Host` field.
    #[must_use]
    pub fn host(&self, field: Option<&'a [u8]>) -> Option<&'a [u8]> {
        host_name(self.authority.or(field)?)
    }
}

/// Returns the host, without the port and without a dot at the end.
pub(crate) fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let host = match authority {
        [b'[', ..] => &authority[..=authority.iter().position(|byte| *byte == b']')?],
        _ => authority.split(|byte| *byte == b':').next().unwrap_or_default(),
    };

    let host = host.strip_suffix(b".").unwrap_or(host);
    (!host.is_empty()).then_some(host)
}

/// Returns where the path ends, and a query or fragment starts.
#[inline]
fn path_end(bytes: &[u8]) -> Option<usize> {
    let mask_of = |word| eq_mask(word, b'?') | eq_mask(word, b'#');
    swar::position(bytes, mask_of, |byte| matches!(byte, b'?' | b'#'))
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    let (http, rest) = target.split_at_checked(4)?;
    let rest = http.eq_ignore_ascii_case(b"http").then_some(rest)?;
    rest.strip_prefix(b"s").or_else(|| rest.strip_prefix(b"S")).unwrap_or(rest).strip_prefix(b"://")
}

#[cfg(test)]
mod tests;
