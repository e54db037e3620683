//! Hosts in the words of rule files: `https://example.org/path` taken apart.
//!
//! Never decides whether a host has a site.

use crate::fault::Fault;

/// What follows `http://`, `https://` or `//`.
pub(crate) fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://", "//"].into_iter().find_map(|scheme| {
        let head = text.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

/// Cuts `http://host`, `https://host` or `://host` off a source.
pub(crate) fn split_host(text: &str) -> Result<(Option<String>, &str), Fault> {
    let rest = match text.strip_prefix("://") {
        Some(rest) => rest,
        None if text.starts_with('/') => return Ok((None, text)),
        None => match after_scheme(text) {
            Some(rest) => rest,
            None => return Ok((None, text)),
        },
    };
    let slash = rest.find('/').unwrap_or(rest.len());
    let path = if slash == rest.len() { "/" } else { &rest[slash..] };
    Ok((Some(parse_host(&rest[..slash])?), path))
}

/// A host in lower case, without its port.
pub(crate) fn parse_host(authority: &str) -> Result<String, Fault> {
    let host = match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..=end],
        _ => authority.split(':').next().unwrap_or(authority),
    };
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_literal =
        host.starts_with('[') && host[1..].bytes().all(|byte| is_host_byte(byte) || b":]".contains(&byte));
    if host.is_empty() || !(is_literal || host.bytes().all(is_host_byte)) {
        let message =
            format!("`{authority}` is no host; write one name in ASCII (punycode), without wildcards");
        return Err(Fault::new("bad-host", message));
    }
    Ok(host.to_ascii_lowercase())
}
