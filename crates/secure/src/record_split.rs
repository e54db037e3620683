//! Which bytes go into which record: small runs gather, long ones fill records of their own.
//!
//! Sealing a record costs about what copying four kilobytes does. So short runs are copied behind each other, until a
//! record is full; a long one is cut into records where it lies, and what was gathered before it goes alone, unless the
//! record is to be short anyway.

use std::io::IoSlice;

use crate::limits;

/// A run, or what is left of it, from this many bytes on is sealed where it lies.
const ALONE_BYTES_MIN: usize = 4 * 1024;

/// Runs, of which some bytes were taken.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    runs: &'a [IoSlice<'a>],
    /// How much of the first is taken.
    taken: usize,
    /// How many bytes are left in all of them.
    left: usize,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(runs: &'a [IoSlice<'a>]) -> Self {
        let mut runs = Self { runs, taken: 0, left: runs.iter().map(|run| run.len()).sum() };
        runs.skip_empty();
        runs
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// How many bytes the next record takes, of at most `max`.
    pub(crate) fn next_length(&self, max: usize) -> usize {
        let mut length = self.first().len();
        if length < ALONE_BYTES_MIN {
            for run in self.runs.iter().skip(1) {
                if length >= max || (run.len() >= ALONE_BYTES_MIN && max > ALONE_BYTES_MIN) {
                    break;
                }
                length += run.len();
            }
        }
        length.min(max)
    }

    /// The next `length` bytes where they lie, if one run holds them all.
    pub(crate) fn whole(&mut self, length: usize) -> Option<&'a [u8]> {
        let whole = self.first().get(..length)?;
        self.advance(length);
        Some(whole)
    }

    /// Copies the next bytes until `room` is full.
    pub(crate) fn copy(&mut self, mut room: &mut [u8]) {
        while !room.is_empty() && self.left > 0 {
            let part = self.first();
            let part = &part[..part.len().min(room.len())];
            let (here, rest) = room.split_at_mut(part.len());
            here.copy_from_slice(part);
            room = rest;
            self.advance(part.len());
        }
    }

    fn first(&self) -> &'a [u8] {
        self.runs.first().map_or(&[], |run| &run[self.taken..])
    }

    /// Goes on by `bytes` of the first run.
    fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
        self.left -= bytes;
        self.skip_empty();
    }

    fn skip_empty(&mut self) {
        while let Some((first, rest)) = self.runs.split_first()
            && self.taken >= first.len()
        {
            self.runs = rest;
            self.taken = 0;
        }
    }
}

/// How large records are, by what went before: small at the start of a long answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// What was sealed since the last pause, up to [`limits::FIRST_FLIGHT_BYTES`].
    flight_bytes: usize,
}

impl Growth {
    /// The most content that the next record may have, when so much is left to be sealed.
    pub(crate) fn content_bytes_max(self, left: usize) -> usize {
        let fits_flight = self.flight_bytes + left <= limits::FIRST_FLIGHT_BYTES;
        if fits_flight || self.flight_bytes >= limits::FIRST_FLIGHT_BYTES {
            limits::CONTENT_BYTES_MAX
        } else {
            limits::FIRST_CONTENT_BYTES
        }
    }

    /// So much content was sealed.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.flight_bytes = (self.flight_bytes + bytes).min(limits::FIRST_FLIGHT_BYTES);
    }
}

#[cfg(test)]
mod tests;
