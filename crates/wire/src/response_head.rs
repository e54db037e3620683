//! A response head spelled for each protocol, without the state of any connection.
//!
//! The archiver calls this once for each kind of file; the server calls it once at start for its own
//! answers. Never on the request path.

/// The fields that the server adds to every answer unless it is told not to, and that a site may set
/// itself. A bit of [`cannery_archive::Head::overrides`] belongs to each, by its place in this list.
pub const SERVER_FIELDS: [&str; 6] = [
    "Referrer-Policy",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "X-Frame-Options",
    "Strict-Transport-Security",
    "Content-Security-Policy",
];

/// The bit of [`cannery_archive::Head::overrides`] for a field that the site sets itself: zero for a
/// field that the server does not send.
#[must_use]
pub fn override_bit(name: &str) -> u8 {
    let place = SERVER_FIELDS.iter().position(|field| field.eq_ignore_ascii_case(name));
    place.map_or(0, |place| 1 << place)
}

/// The status line of HTTP/1.1 (RFC 9112 §4), with its line end.
#[must_use]
pub fn status_line(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} {}\r\n", reason_phrase(status)).into_bytes()
}

/// Appends a field line of HTTP/1.1 (RFC 9112 §5), with its line end.
///
/// The caller has made sure that name and value are what RFC 9110 §5 allows.
pub fn put_field(lines: &mut Vec<u8>, name: &str, value: &[u8]) {
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    lines.extend_from_slice(value);
    lines.extend_from_slice(b"\r\n");
}

/// The reason phrase that RFC 9110 §15 gives a status; empty for one that it does not know.
#[must_use]
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_phrase_keeps_its_space() {
        assert_eq!(status_line(200), b"HTTP/1.1 200 OK\r\n");
        // RFC 9112 §4.
        assert_eq!(status_line(499), b"HTTP/1.1 499 \r\n");
    }
}
