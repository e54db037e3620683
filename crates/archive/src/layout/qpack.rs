//! The field lines of a head for HTTP/3 (QPACK, RFC 9204).
//!
//! Each line is a complete field line representation. It is valid on any connection because it refers to nothing but the static
//! table. The lines of all runs are contiguous, so that they can be sent with a single copy. We need the table for lines that must
//! be sent in another form.

use super::hpack::{LINE_IDS, NO_LINE_ID};
use super::length_u16;
use crate::WriteError;

/// Size of the lengths at the beginning, in bytes: four for parts of the table, and four for runs.
const LENGTHS_BYTES: usize = 16;

/// Size of a table row, in bytes.
const ROW_BYTES: usize = 5;

/// A field line in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpackLine<'a> {
    /// The ID, or [`NO_LINE_ID`]. This is also the ID of the same line in HPACK.
    pub id: u8,
    /// Size of the line in a dynamic table (RFC 9204 §3.2.1), up to 65,535, or 0 if the whole line is in the static table.
    pub size: u16,
    /// The representation (RFC 9204 §4.5).
    pub representation: &'a [u8],
}

/// Consecutive field lines. Stops at a malformed line. [`crate::Archive::verify`] would report it.
#[derive(Debug, Clone, Copy)]
pub struct QpackLines<'a> {
    table: &'a [u8],
    representations: &'a [u8],
}

impl<'a> QpackLines<'a> {
    /// Returns the representations of all remaining lines.
    #[must_use]
    #[inline]
    pub fn representations(&self) -> &'a [u8] {
        self.representations
    }
}

impl<'a> Iterator for QpackLines<'a> {
    type Item = QpackLine<'a>;

    #[inline]
    fn next(&mut self) -> Option<QpackLine<'a>> {
        let ([id, s0, s1, l0, l1], table) = self.table.split_first_chunk::<ROW_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([*l0, *l1]));
        let (representation, representations) = self.representations.split_at_checked(length)?;
        *self = QpackLines { table, representations };
        Some(QpackLine { id: *id, size: u16::from_le_bytes([*s0, *s1]), representation })
    }
}

/// The four runs of a head for HTTP/3. They correspond to the text runs in [`super::head::Head`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpackRuns<'a> {
    /// Lengths, then the table, then the runs.
    data: &'a [u8],
}

impl<'a> QpackRuns<'a> {
    pub(super) fn new(data: &'a [u8]) -> QpackRuns<'a> {
        QpackRuns { data }
    }

    /// Returns all lines, including `:status`.
    #[must_use]
    #[inline]
    pub fn all(&self) -> QpackLines<'a> {
        self.lines_from(0)
    }

    /// Returns all lines after `:status`.
    #[must_use]
    #[inline]
    pub fn lines(&self) -> QpackLines<'a> {
        self.lines_from(1)
    }

    /// Returns lines that describe the resource. A 304 repeats them.
    #[must_use]
    #[inline]
    pub fn resource(&self) -> QpackLines<'a> {
        self.lines_from(3)
    }

    /// Returns `true` if every byte belongs to the table or to a line, and each line could have been written by our encoder.
    pub(crate) fn is_valid(&self) -> bool {
        let Some((lengths, rest)) = self.data.split_first_chunk() else { return false };
        let total = |lengths: [usize; 4]| lengths.into_iter().sum::<usize>();
        let (table, runs) = (table_lengths(lengths), run_lengths(lengths));
        rest.len() == total(table) + total(runs)
            && (0..4).all(|run| are_valid(self.lines_from(run), table[run], runs[run]))
    }

    /// Returns all lines from this run on.
    #[inline]
    fn lines_from(&self, run: usize) -> QpackLines<'a> {
        let lines = || {
            let (lengths, rest) = self.data.split_first_chunk()?;
            let before = |lengths: [usize; 4]| lengths[..run].iter().sum::<usize>();
            let table_bytes = table_lengths(lengths).into_iter().sum();
            let (table, runs) = rest.split_at_checked(table_bytes)?;
            let table = &table[before(table_lengths(lengths))..];
            Some(QpackLines { table, representations: runs.get(before(run_lengths(lengths))..)? })
        };
        lines().unwrap_or(QpackLines { table: &[], representations: &[] })
    }
}

#[inline]
fn table_lengths(lengths: &[u8; LENGTHS_BYTES]) -> [usize; 4] {
    std::array::from_fn(|run| length(lengths, run))
}

#[inline]
fn run_lengths(lengths: &[u8; LENGTHS_BYTES]) -> [usize; 4] {
    std::array::from_fn(|run| length(lengths, 4 + run))
}

#[inline]
fn length(lengths: &[u8; LENGTHS_BYTES], number: usize) -> usize {
    u16::from_le_bytes([lengths[2 * number], lengths[2 * number + 1]]).into()
}

/// Returns `true` if the first lines are valid and make up a run with these lengths.
fn are_valid(lines: QpackLines<'_>, table_bytes: usize, run_bytes: usize) -> bool {
    if !table_bytes.is_multiple_of(ROW_BYTES) {
        return false;
    }
    let mut count = 0;
    let mut bytes = 0;
    for line in lines.take(table_bytes / ROW_BYTES) {
        count += 1;
        bytes += line.representation.len();
        if !is_valid(line) {
            return false;
        }
    }
    (count, bytes) == (table_bytes / ROW_BYTES, run_bytes)
}

fn is_valid(line: QpackLine<'_>) -> bool {
    match line.representation.first() {
        // Indexed field line, static table.
        Some(0b1100_0000..) => line.id == NO_LINE_ID && line.size == 0,
        // Literal with a name from the static table, or with a literal name.
        Some(0b0101_0000..=0b0101_1111 | 0b0010_0000..=0b0010_1111) => {
            line.size > 0 && (line.id < LINE_IDS || line.id == NO_LINE_ID)
        }
        _ => false,
    }
}

/// A field line to write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewQpackLine {
    /// See [`QpackLine::id`].
    pub id: u8,
    /// See [`QpackLine::size`].
    pub size: u16,
    /// See [`QpackLine::representation`].
    pub representation: Vec<u8>,
}

impl NewQpackLine {
    /// Returns the line as if it had been read from an archive.
    #[must_use]
    #[inline]
    pub fn as_line(&self) -> QpackLine<'_> {
        let NewQpackLine { id, size, ref representation } = *self;
        QpackLine { id, size, representation }
    }

    fn put_row(&self, table: &mut Vec<u8>) -> Result<(), WriteError> {
        table.push(self.id);
        table.extend_from_slice(&self.size.to_le_bytes());
        let length = length_u16("a field line of a response", self.representation.len())?;
        table.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// Appends the lengths, the table and the runs.
pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[Vec<NewQpackLine>; 4]) -> Result<(), WriteError> {
    let what = "the header section of a response";
    for run in runs {
        let length = length_u16(what, ROW_BYTES * run.len())?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    for run in runs {
        let length = length_u16(what, run.iter().map(|line| line.representation.len()).sum())?;
        out.extend_from_slice(&length.to_le_bytes());
    }

    for line in runs.iter().flatten() {
        line.put_row(out)?;
    }
    for line in runs.iter().flatten() {
        out.extend_from_slice(&line.representation);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
