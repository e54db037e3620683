//! Request lines of refused requests. We still log them as far as we can read them.
//!
//! This parser is lenient on purpose: a log should show the client's request no matter what is wrong with it.

use super::head::{RequestHead, Version};
use crate::ground::grammar::is_token_byte;
use crate::limits::{METHOD_BYTES_MAX, TARGET_BYTES_MAX};

/// A method and a target, cut off if they are longer than in any valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method, a token (RFC 9110 §5.6.2).
    pub method: &'a [u8],
    /// The target. It can have any bytes except space, CR and LF.
    pub target: &'a [u8],
    /// The version, or `None` if it is missing or not supported by the server.
    pub version: Option<Version>,
}

impl<'a> RequestLine<'a> {
    /// Returns the request line of a valid head.
    #[inline]
    #[must_use]
    pub fn from_head(head: &RequestHead<'a>) -> RequestLine<'a> {
        let RequestHead { request, method_name, version, .. } = head;
        RequestLine { method: method_name, target: request.target, version: Some(*version) }
    }

    /// Returns the request line of a refused head, whose fields may be missing or malformed. If the method or target is missing,
    /// returns `None`.
    #[must_use]
    pub fn from_refused_head(head: &RequestHead<'a>) -> Option<RequestLine<'a>> {
        RequestLine::cut(head.method_name, head.request.target, Some(head.version))
    }

    /// Parses the request line at the start of `input` (RFC 9112 §3), which may be incomplete. Returns `None` without a method or
    /// target.
    #[must_use]
    pub fn from_http1(input: &'a [u8]) -> Option<RequestLine<'a>> {
        let mut rest = input;
        while let Some(line) = rest.strip_prefix(b"\r\n") {
            rest = line;
        }

        let line = rest.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
        let mut words = line.split(|byte| *byte == b' ');
        let method = words.next()?;
        let target = words.next()?;
        let version = match words.next() {
            Some(b"HTTP/1.0") => Some(Version::Http10),
            Some(b"HTTP/1.1") => Some(Version::Http11),
            _ => None,
        };
        RequestLine::cut(method, target, version)
    }

    fn cut(method: &'a [u8], target: &'a [u8], version: Option<Version>) -> Option<RequestLine<'a>> {
        if method.is_empty() || target.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
            return None;
        }

        Some(RequestLine {
            method: &method[..method.len().min(METHOD_BYTES_MAX)],
            target: &target[..target.len().min(TARGET_BYTES_MAX)],
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_line_is_read_as_far_as_it_goes() {
        let cases: [(&[u8], &[u8], Option<Version>); 4] = [
            (b"\r\nGET /a HTTP/1.1\r\nA : b", b"/a", Some(Version::Http11)),
            (b"GET /a HTTP/3.0\r\n", b"/a", None),
            (b"GET /a\xff\"\r\n", b"/a\xff\"", None),
            (b"GET /par", b"/par", None),
        ];
        for (input, target, version) in cases {
            let expected = RequestLine { method: b"GET", target, version };
            assert_eq!(RequestLine::from_http1(input), Some(expected), "{input:?}");
        }

        for none in [&b""[..], b"GET", b"GET ", b"G\xe9T / HTTP/1.1", b"\x16\x03\x01 /", b"\r\n\r\n"] {
            assert_eq!(RequestLine::from_http1(none), None, "{none:?}");
        }
    }

    #[test]
    fn long_method_and_target_are_cut() {
        let input = [&[b'M'; 100][..], b" /", &[b'x'; 2 * TARGET_BYTES_MAX]].concat();
        let line = RequestLine::from_http1(&input).unwrap();
        assert_eq!((line.method.len(), line.target.len()), (METHOD_BYTES_MAX, TARGET_BYTES_MAX));
    }
}
