//! The lines of a head as HTTP/2 spells them (RFC 7541): ready to be put into the peer's table, or to be sent by themselves.
//!
//! What differs between the two is only what comes before the literal, so a line is stored once. This file never knows
//! what a line says.

use super::length_u16;
use crate::WriteError;

/// How many lines of an archive have a number of their own, from 0 on.
pub const LINE_IDS: u8 = 56;

/// The number of the lines that have none.
pub const NO_LINE_ID: u8 = 255;

/// Bytes of a line before its literal, and of the lengths before the first run.
const LINE_BYTES: usize = 6;
const LENGTHS_BYTES: usize = 8;

/// A line as it lies in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HpackLine<'a> {
    /// The same for the same line in all heads of the archive, and less than [`LINE_IDS`]; or [`NO_LINE_ID`].
    pub id: u8,
    /// The index of its name in the static table, or 0. If `size` is 0, the index of the whole line.
    pub static_index: u8,
    /// What it counts in a table, as RFC 7541 §4.1 says; 65,535 also if it is more. 0 if the static table has it.
    pub size: u16,
    /// The name, unless the static table has it, and the value, as string literals (RFC 7541 §5.2).
    pub literal: &'a [u8],
}

impl<'a> HpackLine<'a> {
    /// The line at the front of `bytes`, and what is left.
    #[inline]
    fn split(bytes: &'a [u8]) -> Option<(HpackLine<'a>, &'a [u8])> {
        let ([id, static_index, s0, s1, l0, l1], rest) = bytes.split_first_chunk::<LINE_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([*l0, *l1]));
        let (literal, rest) = rest.split_at_checked(length)?;
        let size = u16::from_le_bytes([*s0, *s1]);
        Some((HpackLine { id: *id, static_index: *static_index, size, literal }, rest))
    }
}

/// Lines one behind the other. What cannot be decoded ends them; `verify` tells of it.
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

/// The four runs of a head's lines, as [`super::head::Head`] has them as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HpackRuns<'a> {
    /// The lengths of the first three runs and of the last, then the runs.
    data: &'a [u8],
}

impl<'a> HpackRuns<'a> {
    pub(super) fn new(data: &'a [u8]) -> HpackRuns<'a> {
        HpackRuns { data }
    }

    /// All lines.
    #[must_use]
    #[inline]
    pub fn all(&self) -> HpackLines<'a> {
        self.behind(LENGTHS_BYTES)
    }

    /// All that follow the status.
    #[must_use]
    pub fn lines(&self) -> HpackLines<'a> {
        self.behind(LENGTHS_BYTES + self.length(0))
    }

    /// The line that names the media type, or nothing.
    #[must_use]
    pub fn content_type(&self) -> HpackLines<'a> {
        self.run(1)
    }

    /// Lines that describe these bytes, and are left out of a 304.
    #[must_use]
    pub fn representation(&self) -> HpackLines<'a> {
        self.run(2)
    }

    /// Lines that hold for the resource, in a 304 too.
    #[must_use]
    pub fn resource(&self) -> HpackLines<'a> {
        self.behind(LENGTHS_BYTES + (0..3).map(|run| self.length(run)).sum::<usize>())
    }

    /// Whether every byte is part of a line, and each number is one that a line may have.
    pub(crate) fn is_sound(&self) -> bool {
        let lengths = (0..4).map(|run| self.length(run)).sum::<usize>();
        self.data.len() == LENGTHS_BYTES + lengths && (0..4).all(|run| is_sound(self.run(run)))
    }

    fn run(&self, run: usize) -> HpackLines<'a> {
        let start = LENGTHS_BYTES + (0..run).map(|before| self.length(before)).sum::<usize>();
        HpackLines {
            rest: self.data.get(start..).and_then(|rest| rest.get(..self.length(run))).unwrap_or_default(),
        }
    }

    #[inline]
    fn behind(&self, place: usize) -> HpackLines<'a> {
        HpackLines { rest: self.data.get(place..).unwrap_or_default() }
    }

    #[inline]
    fn length(&self, run: usize) -> usize {
        let bytes = self.data.get(2 * run..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
    }
}

fn is_sound(mut lines: HpackLines<'_>) -> bool {
    let is_known = |line: HpackLine<'_>| {
        (line.id < LINE_IDS || line.id == NO_LINE_ID)
            && (line.size > 0 || (line.static_index > 0 && line.literal.is_empty()))
    };
    lines.by_ref().all(is_known) && lines.rest.is_empty()
}

/// A line to be written.
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
    /// The same line, as if it lay in an archive.
    #[must_use]
    #[inline]
    pub fn as_line(&self) -> HpackLine<'_> {
        let NewHpackLine { id, static_index, size, ref literal } = *self;
        HpackLine { id, static_index, size, literal }
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&[self.id, self.static_index]);
        out.extend_from_slice(&self.size.to_le_bytes());
        super::put_long(out, "a header line of a response", &self.literal)
    }
}

/// Appends the four runs, after their lengths.
pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[Vec<NewHpackLine>; 4]) -> Result<(), WriteError> {
    let mut bytes = Vec::new();
    for run in runs {
        let start = bytes.len();
        run.iter().try_for_each(|line| line.put(&mut bytes))?;
        let length = length_u16("the header lines of a response", bytes.len() - start)?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u8, literal: &[u8]) -> NewHpackLine {
        NewHpackLine { id, static_index: 31, size: 40, literal: literal.to_vec() }
    }

    fn runs() -> Vec<u8> {
        let mut out = Vec::new();
        let status = NewHpackLine { id: NO_LINE_ID, static_index: 8, size: 0, literal: Vec::new() };
        put_runs(
            &mut out,
            &[vec![status], vec![line(0, b"a")], vec![], vec![line(1, b"b"), line(255, b"cc")]],
        )
        .unwrap();
        out
    }

    #[test]
    fn runs_are_cut_where_the_lengths_say() {
        let data = runs();
        let runs = HpackRuns::new(&data);
        let literals =
            |lines: HpackLines<'_>| lines.map(|line| line.literal.to_vec()).collect::<Vec<_>>().join(&b'|');
        assert_eq!(literals(runs.all()), b"|a|b|cc");
        assert_eq!(literals(runs.lines()), b"a|b|cc");
        assert_eq!(literals(runs.content_type()), b"a");
        assert_eq!(runs.representation().count(), 0);
        assert_eq!(literals(runs.resource()), b"b|cc");
        assert_eq!(runs.all().nth(1), Some(line(0, b"a").as_line()));
        assert!(runs.is_sound());
    }

    #[test]
    fn what_is_cut_or_numbered_wrongly_is_not_sound() {
        let whole = runs();
        for length in 0..whole.len() {
            let runs = HpackRuns::new(&whole[..length]);
            assert!(!runs.is_sound(), "cut to {length} bytes");
            assert!(runs.all().count() < 4 && runs.lines().count() < 4 && runs.resource().count() < 3);
        }
        // The number of the first line, and then its index without which it says nothing.
        for (place, byte) in [(8, 56), (8, 254), (9, 0)] {
            let mut data = whole.clone();
            data[place] = byte;
            assert!(!HpackRuns::new(&data).is_sound());
        }
    }
}
