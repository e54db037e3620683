//! Response heads in HTTP/1.1 syntax that we render before there is a request.
//!
//! The archiver does this for each kind of file, and the server does it at startup for its own pages. While answering requests, we
//! only use the reason phrases.

pub use cannery_base::status::reason_phrase;

use crate::ground::decimal::Decimal;

/// Fields the server adds to all responses, unless configured otherwise. Sites can override them: each field has a bit in
/// [`cannery_archive::Head::overrides`], in the order of this list.
pub const SERVER_FIELDS: [&str; 6] = [
    "Referrer-Policy",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "X-Frame-Options",
    "Strict-Transport-Security",
    "Content-Security-Policy",
];

/// Returns the bit in [`cannery_archive::Head::overrides`] of a field that the site sets, or zero if the server would not send this
/// field anyway.
#[must_use]
pub fn override_bit(name: &str) -> u8 {
    let position = SERVER_FIELDS.iter().position(|field| field.eq_ignore_ascii_case(name));
    position.map_or(0, |position| 1 << position)
}

/// Returns HTTP/1.1's status line (RFC 9112 §4), including the end of the line.
#[must_use]
pub fn status_line(status: u16) -> Vec<u8> {
    let mut line = Vec::new();
    put_status_line(&mut line, status);
    line
}

/// Appends HTTP/1.1's status line.
pub(crate) fn put_status_line(lines: &mut Vec<u8>, status: u16) {
    lines.extend_from_slice(b"HTTP/1.1 ");
    lines.extend_from_slice(Decimal::new(status.into()).digits());
    lines.extend_from_slice(b" ");
    lines.extend_from_slice(reason_phrase(status).as_bytes());
    lines.extend_from_slice(b"\r\n");
}

/// Appends an HTTP/1.1 field line (RFC 9112 §5), including the end of the line.
///
/// You need to make sure that both are valid (RFC 9110 §5).
pub fn put_field(lines: &mut Vec<u8>, name: &str, value: &[u8]) {
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    lines.extend_from_slice(value);
    lines.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_without_phrase_keeps_its_space() {
        assert_eq!(status_line(200), b"HTTP/1.1 200 OK\r\n");
        // Required by RFC 9112 §4.
        assert_eq!(status_line(499), b"HTTP/1.1 499 \r\n");
    }
}
