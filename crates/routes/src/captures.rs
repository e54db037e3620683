//! The captured parts of a path.

use std::borrow::Cow;

use crate::pattern::{Pattern, Segment};
use crate::percent::Decoded;

/// The captured parts of a path.
///
/// Captures are only located on request. This way, a match does not need to allocate, and a pattern may have
/// any number of captures.
#[derive(Debug, Clone, Copy)]
pub struct Captures<'r, 'p> {
    pattern: &'r Pattern,
    /// A path that matches the pattern.
    path: &'p [u8],
}

impl<'r, 'p> Captures<'r, 'p> {
    pub(crate) fn new(pattern: &'r Pattern, path: &'p [u8]) -> Captures<'r, 'p> {
        Captures { pattern, path }
    }

    /// Gets a capture after percent-decoding. Any bytes that are not valid UTF-8 are replaced by
    /// U+FFFD.
    ///
    /// Returns `None` if the pattern does not have this capture, regardless of the request.
    ///
    /// Note that the text can contain anything that can be percent-encoded, e.g. `/`, NUL or `..` between
    /// slashes. You should *not* use it as a file path.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'p, str>> {
        self.raw(name).map(decode)
    }

    /// Gets a capture as it appears in the request (percent-encoded).
    ///
    /// Returns `None` if the pattern does not have this capture.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'p [u8]> {
        self.raw_iter().find_map(|(capture, bytes)| (capture == name).then_some(bytes))
    }

    /// Returns names and captures in the order of the pattern. As with [`Captures::get`], they are
    /// percent-decoded.
    pub fn iter(&self) -> impl Iterator<Item = (&'r str, Cow<'p, str>)> + use<'r, 'p> {
        self.raw_iter().map(|(name, bytes)| (name, decode(bytes)))
    }

    fn raw_iter(&self) -> impl Iterator<Item = (&'r str, &'p [u8])> + use<'r, 'p> {
        let mut rest = self.path;
        self.pattern.segments.iter().filter_map(move |segment| {
            // We know that the pattern matches, so the path must have a `/` for each segment.
            let tail = rest.get(1..).unwrap_or_default();
            let bytes = match segment {
                Segment::Rest(_) => tail.len(),
                _ => tail.iter().position(|byte| *byte == b'/').unwrap_or(tail.len()),
            };
            let (part, after) = tail.split_at(bytes);
            rest = after;
            Some((segment.name()?, part))
        })
    }
}

fn decode(encoded: &[u8]) -> Cow<'_, str> {
    if !encoded.contains(&b'%') {
        return String::from_utf8_lossy(encoded);
    }
    let decoded: Vec<u8> = Decoded::new(encoded).collect();
    let text = String::from_utf8(decoded);
    Cow::Owned(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
