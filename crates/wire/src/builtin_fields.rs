//! What the server says of answers that no head was spelled for, whatever the version of HTTP.
//!
//! Never spells it.

use crate::server_fields::ServerFields;

/// What can be asked for (RFC 9110 §10.2.1).
pub(crate) const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// The media type of the pages that are built in.
pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";

/// The media type of several parts, up to its boundary.
pub(crate) const PARTS_TYPE: &str = "multipart/byteranges; boundary=";

/// The `Cache-Control` of a redirect of the server's. Browsers keep a permanent redirect without one for good, so a
/// mistake could never be taken back. An hour is permanent enough.
pub(crate) const fn redirect_caching(status: u16, fields: &ServerFields) -> &'static str {
    match status {
        301 | 308 if fields.keeps_redirects() => "public, max-age=3600",
        _ => "no-cache",
    }
}

/// Whether lines of a head say that the answer depends on `Accept-Encoding`, as the archiver spells it.
pub(crate) fn varies(lines: &[u8]) -> bool {
    let name = b"Vary: Accept-Encoding";
    lines.windows(name.len()).any(|window| window == name)
}
