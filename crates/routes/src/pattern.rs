//! Patterns: their syntax, and helpful errors for text that is not a pattern.

use std::net::Ipv6Addr;

use crate::percent::{self, Decoded};

/// Maximum number of segments in a pattern, which also limits the router's recursion depth.
pub const SEGMENTS_MAX: usize = 64;

/// A valid pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The text that we have parsed.
    pub(crate) text: String,
    /// The method. `None` means all methods.
    pub(crate) method: Option<Box<str>>,
    /// The host in lower case. `None` means all hosts.
    pub(crate) host: Option<Box<str>>,
    /// This has at least one segment. Only the last one can be [`Segment::Slash`] or [`Segment::Rest`].
    pub(crate) segments: Vec<Segment>,
}

/// A segment of a pattern. It comes after a `/`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A segment with exactly these bytes, percent-decoded. Not empty.
    Literal(Box<[u8]>),
    /// A non-empty segment, captured under this name.
    Capture(Box<str>),
    /// The end of the path. So the path has to end with `/`.
    Slash,
    /// Anything, captured if it has a name.
    Rest(Option<Box<str>>),
}

impl Segment {
    /// Returns the name of the capture.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Segment::Capture(name) => Some(name),
            Segment::Rest(name) => name.as_deref(),
            Segment::Literal(_) | Segment::Slash => None,
        }
    }
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("route `{pattern}`, column {column}: {problem}")]
pub struct SyntaxError {
    /// The text.
    pattern: String,
    /// Which character is the problem, counted from 1.
    column: usize,
    /// The problem, and how to fix it.
    problem: &'static str,
}

/// A problem and its offset in the text.
struct Flaw(usize, &'static str);

impl Pattern {
    /// Parses a pattern.
    pub(crate) fn parse(text: &str) -> Result<Pattern, SyntaxError> {
        Parser { text }.pattern().map_err(|Flaw(offset, problem)| SyntaxError {
            pattern: text.to_owned(),
            column: text.char_indices().take_while(|(at, _)| *at < offset).count() + 1,
            problem,
        })
    }
}

/// Pattern parser. All offsets are relative to the whole text.
struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn pattern(&self) -> Result<Pattern, Flaw> {
        let text = self.text;
        // White space can only come after the method.
        let (method, host_start) = match text.find([' ', '\t']) {
            Some(end) => {
                let rest = text[end..].trim_start_matches([' ', '\t']);
                (Some(self.method(end)?), text.len() - rest.len())
            }
            None => (None, 0),
        };
        let Some(host_bytes) = text[host_start..].find('/') else {
            return Err(Flaw(host_start, "there is no path; `/` matches every path"));
        };

        let path_start = host_start + host_bytes;
        let host = if host_bytes == 0 { None } else { Some(self.host(host_start, path_start)?) };
        let segments = self.segments(path_start)?;
        Ok(Pattern { text: text.to_owned(), method, host, segments })
    }

    fn method(&self, end: usize) -> Result<Box<str>, Flaw> {
        let method = &self.text[..end];
        if method.is_empty() {
            return Err(Flaw(0, "a pattern doesn't start with white space"));
        }
        if method.contains('/') {
            return Err(Flaw(end, "only a method can precede white space; write `%20` in a path"));
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if let Some(at) = method.bytes().position(|byte| !is_token(byte)) {
            return Err(Flaw(at, "a method can't contain this character"));
        }
        // Methods are case-sensitive (RFC 9110 §9.1), and all registered ones are in upper case.
        if let Some(at) = method.bytes().position(|byte| byte.is_ascii_lowercase()) {
            return Err(Flaw(at, "methods are case-sensitive; use upper case, such as `GET`"));
        }
        Ok(method.into())
    }

    fn host(&self, start: usize, end: usize) -> Result<Box<str>, Flaw> {
        let host = &self.text[start..end];
        if host.contains('{') {
            return Err(Flaw(start, "a host can't contain captures; a path starts with `/`"));
        }

        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        let is_in_name = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
        if let Some(at) = host.find(|character| !is_in_name(character)).filter(|_| !is_address) {
            let problem = match host.as_bytes()[at] {
                b':' => "a host has no port; the route matches it on every port",
                _ => {
                    "a host consists of letters, digits, `-`, `.` and `_`, or is an IPv6 address in brackets"
                }
            };
            return Err(Flaw(start + at, problem));
        }
        // A name may be fully qualified and have a dot at the end. As in requests, this dot is
        // ignored.
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.is_empty() {
            return Err(Flaw(start, "the host is empty; without a host, start with `/`"));
        }
        Ok(host.to_ascii_lowercase().into())
    }

    fn segments(&self, path_start: usize) -> Result<Vec<Segment>, Flaw> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut start = path_start + 1;
        loop {
            let end = self.text[start..].find('/').map(|bytes| start + bytes);
            let segment = self.segment(start, end)?;
            if let Some(name) = segment.name()
                && segments.iter().any(|earlier| earlier.name() == Some(name))
            {
                return Err(Flaw(start, "two captures have this name"));
            }
            segments.push(segment);
            if segments.len() > SEGMENTS_MAX {
                return Err(Flaw(start, "a pattern has at most 64 segments"));
            }
            match end {
                Some(slash) => start = slash + 1,
                None => return Ok(segments),
            }
        }
    }

    /// Parses the segment from `start` to `end`, or to the end of the text.
    fn segment(&self, start: usize, end: Option<usize>) -> Result<Segment, Flaw> {
        let segment = &self.text[start..end.unwrap_or(self.text.len())];
        let is_last = end.is_none();
        if segment.is_empty() {
            return if is_last {
                Ok(Segment::Rest(None))
            } else {
                Err(Flaw(start, "a segment is empty; only the last can be"))
            };
        }

        if segment.contains('{') {
            return self.capture(start, segment, is_last);
        }

        let refused = [
            ('}', "`{` is missing; write `%7D` if the path contains this character"),
            ('?', "a pattern can't match the query; write `%3F` if the path contains this character"),
            ('#', "a pattern can't match a fragment; write `%23` if the path contains this character"),
        ];
        for (character, problem) in refused {
            if let Some(at) = segment.find(character) {
                return Err(Flaw(start + at, problem));
            }
        }
        if let Some(at) = percent::invalid_escape(segment.as_bytes()) {
            return Err(Flaw(
                start + at,
                "two hexadecimal digits must follow `%`; write `%25` for the character",
            ));
        }

        let literal: Box<[u8]> = Decoded::new(segment.as_bytes()).collect();
        if matches!(&*literal, b"." | b"..") {
            return Err(Flaw(
                start,
                "no request matches a path with `.` or `..`; write the path without them",
            ));
        }
        Ok(Segment::Literal(literal))
    }

    /// Parses a segment that contains `{`.
    fn capture(&self, start: usize, segment: &str, is_last: bool) -> Result<Segment, Flaw> {
        let Some(inner) = segment.strip_prefix('{') else {
            let problem = "a capture is a whole segment; write `%7B` if the path contains `{`";
            return Err(Flaw(start + segment.find('{').unwrap_or(0), problem));
        };
        let Some(inner) = inner.strip_suffix('}') else {
            return Err(Flaw(start, "a capture is a whole segment and ends with `}`"));
        };

        if inner == "$" {
            let misplaced = Flaw(start, "`{$}` is the end of the path; nothing can follow");
            return if is_last { Ok(Segment::Slash) } else { Err(misplaced) };
        }

        let (name, is_rest) = match inner.strip_suffix("...") {
            Some(name) => (name, true),
            None => (inner, false),
        };
        let starts_name = |character: char| character.is_alphabetic() || character == '_';
        if name.is_empty() {
            return Err(Flaw(start, "the capture has no name, such as `{id}` or `{path...}`"));
        }
        if !name.starts_with(starts_name)
            || name.contains(|character: char| !starts_name(character) && !character.is_numeric())
        {
            return Err(Flaw(
                start + 1,
                "a name consists of letters, digits and `_`, and starts with no digit",
            ));
        }

        match (is_rest, is_last) {
            (false, _) => Ok(Segment::Capture(name.into())),
            (true, true) => Ok(Segment::Rest(Some(name.into()))),
            (true, false) => Err(Flaw(start, "`...` captures the rest of the path; nothing can follow")),
        }
    }
}

#[cfg(test)]
mod tests;
