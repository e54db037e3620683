//! The combined log format, as introduced by Apache and understood by most tools.
//!
//! Data from the peer is quoted, with any quotes, backslashes, control bytes and non-ASCII bytes escaped as
//! `\xHH`. Thus, peers can neither forge a line nor control a terminal.

use cannery_base::date::format_http_date;
use cannery_wire::Version;

use super::encode::{is_plain, is_plain_byte, put_number, put_peer};
use super::line::Line;

/// Appends a line.
pub(super) fn encode(out: &mut Vec<u8>, line: &Line<'_>, time: &[u8]) {
    put_peer(out, line.client);
    out.extend_from_slice(time);
    match line.request {
        Some(request) => {
            // This is a token (RFC 9110 §5.6.2), so it does not need to be escaped.
            out.extend_from_slice(request.method);
            out.push(b' ');
            put_escaped(out, request.target);
            out.extend_from_slice(match request.version {
                Some(Version::Http10) => b" HTTP/1.0\" ",
                Some(Version::Http11) => b" HTTP/1.1\" ",
                Some(Version::Http2) => b" HTTP/2.0\" ",
                Some(Version::Http3) => b" HTTP/3.0\" ",
                None => b"\" ",
            });
        }
        None => out.extend_from_slice(b"-\" "),
    }

    put_number(out, line.status.into());
    out.push(b' ');
    put_number(out, line.bytes);
    out.extend_from_slice(b" \"");
    put_escaped(out, line.referer.unwrap_or(b"-"));
    out.extend_from_slice(b"\" \"");
    put_escaped(out, line.user_agent.unwrap_or(b"-"));
    out.extend_from_slice(b"\"\n");
}

/// Appends ` - - [06/Nov/1994:08:49:37 +0000] "`, the time with the constant text around it. The log should
/// not depend on where the server is, so the time is in UTC.
pub(super) fn encode_time(out: &mut Vec<u8>, seconds: u64) {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let date = format_http_date(seconds);
    let parts: [&[u8]; 9] =
        [b" - - [", &date[5..7], b"/", &date[8..11], b"/", &date[12..16], b":", &date[17..25], b" +0000] \""];
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[inline]
pub(super) fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        put_escapes(out, bytes);
    }
}

#[cold]
fn put_escapes(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if is_plain_byte(*byte) {
            out.push(*byte);
        } else {
            let high = DIGITS[usize::from(byte >> 4)];
            let low = DIGITS[usize::from(byte & 15)];
            out.extend_from_slice(&[b'\\', b'x', high, low]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_peers_is_escaped() {
        let mut out = Vec::new();
        put_escaped(&mut out, b"a\"b\\c\n\x1b[0m\xc3\xa9 ~\x7f");
        assert_eq!(out, br"a\x22b\x5Cc\x0A\x1B[0m\xC3\xA9 ~\x7F");
    }

    #[test]
    fn time_has_common_log_format() {
        let mut out = Vec::new();
        encode_time(&mut out, 784_111_777);
        assert_eq!(out, b" - - [06/Nov/1994:08:49:37 +0000] \"");
    }
}
