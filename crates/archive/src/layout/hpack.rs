//! The field lines of a head for HTTP/2 (HPACK, RFC 7541).
//!
//! We only need to store each line once: literals with incremental indexing and literals without indexing differ in nothing but the
//! bytes before the strings (RFC 7541 §6.2).

use std::ops::Range;

use super::length_u16;
use crate::WriteError;

/// Number of field lines in an archive that can have an ID (starting at 0).
pub const LINE_IDS: u8 = 56;

/// Used instead of an ID for lines without one.
pub const NO_LINE_ID: u8 = 255;

/// Number of bytes in a field line before its strings.
const LINE_HEADER_BYTES: usize = 6;
/// Size of the four run lengths at the beginning, in bytes.
const LENGTHS_BYTES: usize = 8;

/// A field line in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HpackLine<'a> {
    /// Identifies the line in all heads of the archive: either less than [`LINE_IDS`], or [`NO_LINE_ID`].
    pub id: u8,
    /// Index of the name in the static table, or 0. If `size` is 0, this is the index of the whole line instead.
    pub static_index: u8,
    /// Size of the line in a dynamic table (RFC 7541 §4.1), up to 65,535, or 0 if the whole line is in the static table.
    pub size: u16,
    /// The name (unless it is in the static table) and the value, as string literals (RFC 7541 §5.2).
    pub literal: &'a [u8],
}

impl<'a> HpackLine<'a> {
    /// Splits the first line off.
    #[inline]
    fn split(bytes: &'a [u8]) -> Option<(HpackLine<'a>, &'a [u8])> {
        let ([id, static_index, s0, s1, l0, l1], rest) = bytes.split_first_chunk::<LINE_HEADER_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([*l0, *l1]));
        let (literal, rest) = rest.split_at_checked(length)?;
        let size = u16::from_le_bytes([*s0, *s1]);
        Some((HpackLine { id: *id, static_index: *static_index, size, literal }, rest))
    }
}

/// Consecutive field lines. Stops at a malformed line. [`crate::Archive::verify`] would report it.
#[derive(Debug, Clone, Copy)]
pub struct HpackLines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for HpackLines<'a> {
    type Item = HpackLine<'a>;

    #[inline]
    fn next(&mut self) -> Option<HpackLine<'a>> {
        let (line, rest) = HpackLine::split(self.rest)?;
        self.rest = rest;
        Some(line)
    }
}

/// The four runs of a head for HTTP/2. They correspond to the text runs in [`super::head::Head`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HpackRuns<'a> {
    /// Four lengths, the four runs, and possibly more bytes.
    data: &'a [u8],
}

impl<'a> HpackRuns<'a> {
    pub(super) fn new(data: &'a [u8]) -> HpackRuns<'a> {
        HpackRuns { data }
    }

    /// Returns all lines, including `:status`.
    #[must_use]
    #[inline]
    pub fn all(&self) -> HpackLines<'a> {
        self.lines_of(0..4)
    }

    /// Returns all lines except `:status`.
    #[must_use]
    pub fn lines(&self) -> HpackLines<'a> {
        self.lines_of(1..4)
    }

    /// Returns the `content-type` line. It can be missing.
    #[must_use]
    pub fn content_type(&self) -> HpackLines<'a> {
        self.lines_of(1..2)
    }

    /// Returns lines that describe the representation. A 304 leaves them out.
    #[must_use]
    pub fn representation(&self) -> HpackLines<'a> {
        self.lines_of(2..3)
    }

    /// Returns lines that describe the resource. A 304 repeats them.
    #[must_use]
    pub fn resource(&self) -> HpackLines<'a> {
        self.lines_of(3..4)
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        let rest = self.data.split_first_chunk().and_then(|(lengths, rest)| rest.get(end(lengths, 4)..));
        rest.unwrap_or_default()
    }

    /// Returns `true` if the runs only consist of complete lines with valid numbers.
    pub(crate) fn is_valid(&self) -> bool {
        let lengths = self.data.split_first_chunk();
        lengths.is_some_and(|(lengths, rest)| rest.len() >= end(lengths, 4))
            && (0..4).all(|run| are_valid(self.lines_of(run..run + 1)))
    }

    #[inline]
    fn lines_of(&self, runs: Range<usize>) -> HpackLines<'a> {
        let rest = self
            .data
            .split_first_chunk()
            .and_then(|(lengths, rest)| rest.get(end(lengths, runs.start)..end(lengths, runs.end)));
        HpackLines { rest: rest.unwrap_or_default() }
    }
}

/// Returns the total length of the first `runs` runs in bytes.
#[inline]
fn end(lengths: &[u8; LENGTHS_BYTES], runs: usize) -> usize {
    (0..runs).map(|run| usize::from(u16::from_le_bytes([lengths[2 * run], lengths[2 * run + 1]]))).sum()
}

fn are_valid(mut lines: HpackLines<'_>) -> bool {
    let is_valid = |line: HpackLine<'_>| {
        (line.id < LINE_IDS || line.id == NO_LINE_ID)
            && (line.size > 0 || (line.static_index > 0 && line.literal.is_empty()))
    };
    lines.by_ref().all(is_valid) && lines.rest.is_empty()
}

/// A field line to write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewHpackLine {
    /// See [`HpackLine::id`].
    pub id: u8,
    /// See [`HpackLine::static_index`].
    pub static_index: u8,
    /// See [`HpackLine::size`].
    pub size: u16,
    /// See [`HpackLine::literal`].
    pub literal: Vec<u8>,
}

impl NewHpackLine {
    /// Returns the line as if it had been read from an archive.
    #[must_use]
    #[inline]
    pub fn as_line(&self) -> HpackLine<'_> {
        let NewHpackLine { id, static_index, size, ref literal } = *self;
        HpackLine { id, static_index, size, literal }
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&[self.id, self.static_index]);
        out.extend_from_slice(&self.size.to_le_bytes());
        super::put_bytes_u16(out, "a field line of a response", &self.literal)
    }
}

/// Appends the four lengths and then the runs.
pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[Vec<NewHpackLine>; 4]) -> Result<(), WriteError> {
    let mut bytes = Vec::new();
    for run in runs {
        let start = bytes.len();
        run.iter().try_for_each(|line| line.put(&mut bytes))?;
        let length = length_u16("the header section of a response", bytes.len() - start)?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests;
