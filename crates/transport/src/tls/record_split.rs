//! Splits content into records. Short runs share a record, while long runs get their own.
//!
//! Sealing a record takes about as long as copying four kilobytes. Short runs are therefore copied together
//! until a record is full, whereas a long run is sealed where it is, without a copy. Any short runs before
//! it get a separate record, unless the record has to be small anyway.

use std::io::IoSlice;

use crate::limits;

/// If at least this many bytes of a run remain, it is sealed where it is.
const CONTIGUOUS_BYTES_MIN: usize = 4 * 1024;

/// Runs of bytes that are consumed from the front.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    /// Invariant: either this is empty, or the first run has more than `consumed` bytes.
    runs: &'a [IoSlice<'a>],
    /// Bytes of the first run that have been consumed.
    consumed: usize,
    /// Bytes remaining in all runs.
    remaining: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(runs: &'a [IoSlice<'a>]) -> Self {
        let remaining = runs.iter().map(|run| run.len()).sum();
        let mut runs = Self { runs, consumed: 0, remaining };
        runs.skip_empty();
        runs
    }

    pub(super) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Returns the number of bytes that the next record should contain (up to `max`).
    pub(super) fn next_length(&self, max: usize) -> usize {
        let mut length = self.first().len();
        if length < CONTIGUOUS_BYTES_MIN {
            for run in self.runs.iter().skip(1) {
                if length >= max || (run.len() >= CONTIGUOUS_BYTES_MIN && max > CONTIGUOUS_BYTES_MIN) {
                    break;
                }
                length += run.len();
            }
        }
        length.min(max)
    }

    /// Consumes the next `length` bytes without copying them. If they are not all in one run, none are
    /// consumed and `None` is returned.
    pub(super) fn take_contiguous(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.first().get(..length)?;
        self.advance(length);
        Some(bytes)
    }

    /// Copies the next bytes until `target` is full.
    pub(super) fn copy_to(&mut self, mut target: &mut [u8]) {
        while !target.is_empty() && self.remaining > 0 {
            let part = self.first();
            let part = &part[..part.len().min(target.len())];
            let (head, tail) = target.split_at_mut(part.len());
            head.copy_from_slice(part);
            target = tail;
            self.advance(part.len());
        }
    }

    fn first(&self) -> &'a [u8] {
        self.runs.first().map_or(&[], |run| &run[self.consumed..])
    }

    /// Consumes some bytes of the first run.
    fn advance(&mut self, bytes: usize) {
        self.consumed += bytes;
        self.remaining -= bytes;
        self.skip_empty();
    }

    fn skip_empty(&mut self) {
        while let Some((first, rest)) = self.runs.split_first()
            && self.consumed >= first.len()
        {
            self.runs = rest;
            self.consumed = 0;
        }
    }
}

/// Dynamic record sizing: small records at the start of a long response, and full ones after the first
/// flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordSizing {
    /// Content bytes sealed since the last pause, up to [`limits::FIRST_FLIGHT_BYTES`].
    flight_bytes: usize,
}

impl RecordSizing {
    /// Returns the maximum content length of the next record, given that `remaining` bytes are left
    /// to seal.
    pub(super) fn content_bytes_max(self, remaining: usize) -> usize {
        let fits_flight = self.flight_bytes + remaining <= limits::FIRST_FLIGHT_BYTES;
        if fits_flight || self.flight_bytes >= limits::FIRST_FLIGHT_BYTES {
            limits::CONTENT_BYTES_MAX
        } else {
            limits::FIRST_CONTENT_BYTES
        }
    }

    /// Counts sealed content.
    pub(super) fn add(&mut self, bytes: usize) {
        self.flight_bytes = (self.flight_bytes + bytes).min(limits::FIRST_FLIGHT_BYTES);
    }
}

#[cfg(test)]
mod tests;
