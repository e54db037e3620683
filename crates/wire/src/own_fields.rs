//! What the server says of answers that no head was spelled for, whatever the version of HTTP.
//!
//! Never spells it.

/// What can be asked for (RFC 9110 §10.2.1).
pub(crate) const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// The media type of the pages that are built in.
pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";

/// The media type of several parts, up to its boundary.
pub(crate) const PARTS_TYPE: &str = "multipart/byteranges; boundary=";

/// How long a redirect of the server's may be kept. A permanent one that says nothing of caching is kept for good by
/// browsers: a mistake could never be taken back. An hour is permanent enough.
pub(crate) const fn redirect_caching(status: u16) -> &'static str {
    match status {
        301 | 308 => "public, max-age=3600",
        _ => "no-cache",
    }
}

/// Whether lines of a head say that the answer depends on `Accept-Encoding`, as the archiver spells it.
pub(crate) fn varies(lines: &[u8]) -> bool {
    let name = b"Vary: Accept-Encoding";
    lines.windows(name.len()).any(|window| window == name)
}
