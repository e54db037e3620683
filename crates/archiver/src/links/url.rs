//! Joins references in links with the URL of the file they are in.
//!
//! Links should be read as browsers do, so this follows the WHATWG URL standard to the extent needed for
//! `http` and `https`.

use crate::rulefiles::percent::percent_encode;

/// The part of a URL that selects a response. This does not include the query or the fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Url {
    /// In lower case and without a port. `None` for the default site.
    pub(super) host: Option<Box<str>>,
    /// The absolute path, percent-encoded, without dot segments.
    pub(super) path: String,
}

impl Url {
    /// Resolves `reference` against this URL.
    ///
    /// Returns `None` if the link stays in the same document, if it leads to another scheme or port, or if the
    /// host is not valid.
    pub(super) fn join(&self, reference: &[u8]) -> Option<Url> {
        let reference = clean(reference);
        let rest = match scheme(&reference) {
            Some(scheme) => {
                let is_http = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
                let rest = &reference[scheme.len() + 1..];
                // `https:page` is only treated as relative for compatibility, and pages are unlikely to mean
                // it that way.
                (is_http && rest.starts_with(b"//")).then_some(rest)?
            }
            None => &reference,
        };
        if let Some(rest) = rest.strip_prefix(b"//") {
            let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let host = host(&rest[..slash])?;
            return Some(Url { host: Some(host.into()), path: normalize(&rest[slash..]) });
        }
        if rest.is_empty() {
            return None;
        }

        let path = if rest.starts_with(b"/") {
            normalize(rest)
        } else {
            let folder = self.path.rfind('/').map_or("", |slash| &self.path[..=slash]);
            normalize(&[folder.as_bytes(), rest].concat())
        };
        Some(Url { host: self.host.clone(), path })
    }
}

/// Cleans a reference like browsers do: white space at both ends, tabs and line feeds are removed, and backslashes are
/// turned into slashes.
///
/// The query and the fragment are removed too.
fn clean(reference: &[u8]) -> Vec<u8> {
    let is_path = |byte: &u8| !matches!(byte, b'?' | b'#');
    let visible =
        reference.trim_ascii().iter().copied().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'));
    visible.take_while(is_path).map(|byte| if byte == b'\\' { b'/' } else { byte }).collect()
}

/// Returns the scheme a reference starts with (RFC 3986 §3.1), without the colon.
fn scheme(reference: &[u8]) -> Option<&[u8]> {
    let colon = reference.iter().position(|byte| *byte == b':')?;
    let scheme = &reference[..colon];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    is_scheme.then_some(scheme)
}

/// Extracts the host from an authority and converts it to lower case. If there is a user or an unusual port,
/// this returns `None`.
fn host(authority: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(authority).ok()?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, ""),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_plain = !host.is_empty() && !host.contains('@') && matches!(port, "" | "80" | "443");
    is_plain.then(|| host.to_ascii_lowercase())
}

/// Removes dot segments and percent-encodes all bytes of a path that browsers would encode.
fn normalize(path: &[u8]) -> String {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut rest = path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/').peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        match dots(segment) {
            Some(dots) => {
                if dots == 2 {
                    segments.pop();
                }
                // A dot segment at the end names a folder.
                if is_last {
                    segments.push(b"");
                }
            }
            None => segments.push(segment),
        }
    }
    let is_kept = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>?^`{}".contains(&byte);
    format!("/{}", percent_encode(&segments.join(&b'/'), is_kept))
}

/// Counts the dots in a dot segment, even if they are percent-encoded.
fn dots(segment: &[u8]) -> Option<usize> {
    let text = segment.to_ascii_lowercase();
    match text.as_slice() {
        b"." | b"%2e" => Some(1),
        b".." | b".%2e" | b"%2e." | b"%2e%2e" => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
