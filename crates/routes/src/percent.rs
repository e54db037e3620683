//! Percent-encoding of paths (RFC 3986 §2.1).

use std::fmt::Write;

/// The percent-decoded bytes of a path. Invalid escapes are kept as they are.
pub(crate) struct Decoded<'a> {
    rest: &'a [u8],
}

impl<'a> Decoded<'a> {
    pub(crate) fn new(encoded: &'a [u8]) -> Decoded<'a> {
        Decoded { rest: encoded }
    }
}

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, tail) = self.rest.split_first()?;
        let (byte, rest) = match escaped_byte(self.rest) {
            Some(byte) => (byte, &tail[2..]),
            None => (first, tail),
        };
        self.rest = rest;
        Some(byte)
    }
}

/// Whether a percent-encoded path is UTF-8 both before and after decoding, in which case no part of it will lose bytes when
/// converted to text. For example, a character with a raw byte and an escaped byte is only UTF-8 after decoding.
#[must_use]
pub fn is_utf8_path(path: &[u8]) -> bool {
    if str::from_utf8(path).is_err() {
        return false;
    }
    if !path.contains(&b'%') {
        return true;
    }
    let decoded: Vec<u8> = Decoded::new(path).collect();
    str::from_utf8(&decoded).is_ok()
}

/// Whether a percent-encoded segment is `.` or `..`.
pub(crate) fn is_dots(segment: &[u8]) -> bool {
    Decoded::new(segment).eq(*b".") || Decoded::new(segment).eq(*b"..")
}

/// Replaces `resolved` by a path without dot segments and empty segments (RFC 3986 §5.2.4), like the site resolves them. The other
/// segments remain percent-encoded.
pub(crate) fn resolve(path: &[u8], resolved: &mut Vec<u8>) {
    resolved.clear();
    let mut is_directory = true;
    for segment in path.split(|byte| *byte == b'/') {
        is_directory = segment.is_empty() || is_dots(segment);
        if !is_directory {
            resolved.push(b'/');
            resolved.extend_from_slice(segment);
        } else if Decoded::new(segment).eq(*b"..") {
            let parent = resolved.iter().rposition(|byte| *byte == b'/');
            resolved.truncate(parent.unwrap_or_default());
        }
    }
    if is_directory {
        resolved.push(b'/');
    }
}

/// If `encoded` starts with an escape, returns its byte.
fn escaped_byte(encoded: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = *encoded else { return None };
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Returns the offset of the first `%` that is not followed by two hexadecimal digits.
pub(crate) fn invalid_escape(encoded: &[u8]) -> Option<usize> {
    (0..encoded.len()).find(|&at| encoded[at] == b'%' && escaped_byte(&encoded[at..]).is_none())
}

/// Appends bytes to a path, percent-encoding those that are not allowed in segments (RFC 3986 §3.3).
pub(crate) fn encode_segment(bytes: &[u8], path: &mut String) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        for (encoded, decoded) in
            [("", ""), ("a", "a"), ("%61b", "ab"), ("%2f%2F", "//"), ("%", "%"), ("%6", "%6"), ("%%61", "%a")]
        {
            assert_eq!(Decoded::new(encoded.as_bytes()).collect::<Vec<_>>(), decoded.as_bytes(), "{encoded}");
        }
    }

    #[test]
    fn paths_are_utf8_or_not() {
        for path in [&b"/"[..], b"/caf%C3%A9", "/café".as_bytes(), b"/%", b"/%00", b"/..%2f"] {
            assert!(is_utf8_path(path), "{}", path.escape_ascii());
        }
        for path in [
            &b"/%ff"[..],
            b"/\xff",
            b"/%C3/%A9",
            b"/a%c3",
            b"/%ed%a0%80",
            b"/%C0%AF",
            b"/caf\xc3%A9",
            b"/%C3\xa9",
        ] {
            assert!(!is_utf8_path(path), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn dot_segments_and_empty_segments_are_resolved() {
        let mut resolved = Vec::new();
        for (path, resolved_path) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("//a//b/", "/a/b/"),
            ("/./a/%2E", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/%2e.", "/a/"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a%2Fb/...", "/a%2Fb/..."),
        ] {
            resolve(path.as_bytes(), &mut resolved);
            assert_eq!(resolved, resolved_path.as_bytes(), "{path}");
        }
    }

    #[test]
    fn invalid_escapes_are_found() {
        for (encoded, offset) in
            [("", None), ("a%20%2F", None), ("a%", Some(1)), ("%2", Some(0)), ("%41%4g", Some(3))]
        {
            assert_eq!(invalid_escape(encoded.as_bytes()), offset, "{encoded}");
        }
    }

    #[test]
    fn encoded_segment_decodes_to_its_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut path = String::new();
        encode_segment(&bytes, &mut path);
        assert!(path.is_ascii() && !path.contains('/'));
        assert_eq!(Decoded::new(path.as_bytes()).collect::<Vec<_>>(), bytes);
    }
}
