//! Names of header fields with rules of their own.

/// These fields depend on the connection, so handlers cannot set them.
pub(crate) const SERVER_FIELDS: [&str; 7] =
    ["Connection", "Content-Length", "Date", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"];

/// Fields that describe content, so that they are left out if there is none.
pub(crate) const CONTENT_FIELDS: [&str; 4] =
    ["Content-Encoding", "Content-Language", "Content-Range", "Accept-Ranges"];

/// Fields that can only have one value, according to the specifications that register them.
const SINGLE_FIELDS: [&str; 26] = [
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Max-Age",
    "Age",
    "Content-Disposition",
    "Content-Location",
    "Content-Range",
    "Content-Type",
    "Cross-Origin-Embedder-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "ETag",
    "Expires",
    "Last-Modified",
    "Location",
    "Origin-Agent-Cluster",
    "Referrer-Policy",
    "Refresh",
    "Retry-After",
    "Server",
    "SourceMap",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-DNS-Prefetch-Control",
    "X-Frame-Options",
    "X-XSS-Protection",
];

pub(crate) fn has_single_value(name: &str) -> bool {
    is_one_of(name, &SINGLE_FIELDS)
}

pub(crate) fn is_content_type(name: &str) -> bool {
    name.eq_ignore_ascii_case("Content-Type")
}

pub(crate) fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Returns `true` for bytes that tokens may contain (RFC 9110 §5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}
