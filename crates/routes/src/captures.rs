//! The parts of a path that a pattern has captured.

use std::borrow::Cow;

use crate::pattern::{Pattern, Segment};
use crate::percent::Decoded;

/// The parts of a path that a pattern has captured.
///
/// They are located when they are requested, so that a match doesn't allocate and a pattern may have any number of them.
#[derive(Debug, Clone, Copy)]
pub struct Captures<'r, 'p> {
    pattern: &'r Pattern,
    /// A path that the pattern matches.
    path: &'p [u8],
}

impl<'r, 'p> Captures<'r, 'p> {
    pub(crate) fn new(pattern: &'r Pattern, path: &'p [u8]) -> Captures<'r, 'p> {
        Captures { pattern, path }
    }

    /// Returns a capture, percent-decoded. Bytes that aren't UTF-8 are replaced by U+FFFD.
    ///
    /// Returns `None` if the pattern has no capture of this name, which doesn't depend on the request.
    ///
    /// The text may contain anything that can be percent-encoded, such as `/`, NUL and, between slashes, `..`: don't use it as
    /// the path of a file.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'p, str>> {
        self.raw(name).map(decode)
    }

    /// Returns a capture as the request has it, percent-encoded.
    ///
    /// Returns `None` if the pattern has no capture of this name.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'p [u8]> {
        self.raw_iter().find_map(|(capture, bytes)| (capture == name).then_some(bytes))
    }

    /// Returns names and captures in the order of the pattern, percent-decoded as by [`Captures::get`].
    pub fn iter(&self) -> impl Iterator<Item = (&'r str, Cow<'p, str>)> + use<'r, 'p> {
        self.raw_iter().map(|(name, bytes)| (name, decode(bytes)))
    }

    fn raw_iter(&self) -> impl Iterator<Item = (&'r str, &'p [u8])> + use<'r, 'p> {
        let mut rest = self.path;
        self.pattern.segments.iter().filter_map(move |segment| {
            // The pattern matches, so each of its segments has a `/` in the path.
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
