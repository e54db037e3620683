//! What waits to be sent: our own bytes, and ranges of the archive between them.
//!
//! Answers to pipelined requests gather here, so that one call sends them all. Never copies a large body.

use cannery_archive::Extent;

use crate::decimal::Decimal;
use crate::limits::{OUTPUT_BYTES, RESPONSE_BYTES_RESERVED, RESPONSE_SEGMENTS_MAX, SEGMENTS_MAX};

/// A run of bytes to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// So many of our own bytes, which follow those of the segment before.
    Inline(usize),
    /// A range of the archive of this number.
    Archive(u16, Extent),
}

/// What waits to be sent on one connection, in order. Made once for each worker.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    /// Own bytes that belong to no segment yet: `bytes.len() >= open_from`.
    open_from: usize,
    /// The archive that ranges are of from now on.
    archive: u16,
    /// Bytes of the ranges of archives.
    archive_bytes: u64,
}

impl Output {
    /// An empty output with all the room that it will need.
    #[must_use]
    pub fn new() -> Output {
        let (bytes, segments) = (Vec::with_capacity(OUTPUT_BYTES), Vec::with_capacity(SEGMENTS_MAX));
        Output { bytes, segments, open_from: 0, archive: 0, archive_bytes: 0 }
    }

    /// Whether one more answer can be spelled; if not, this must be sent first.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.bytes.len() + RESPONSE_BYTES_RESERVED <= OUTPUT_BYTES
            && self.segments.len() + RESPONSE_SEGMENTS_MAX < SEGMENTS_MAX
    }

    /// Whether nothing waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.segments.is_empty()
    }

    /// All bytes that wait.
    #[must_use]
    #[inline]
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.archive_bytes
    }

    /// Adds our own bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Our own bytes, for more to be appended.
    #[inline]
    pub(crate) fn inline_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many of our own bytes wait: the place of those that are put next.
    #[inline]
    pub(crate) fn inline_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes over our own bytes from this place on; so many are there.
    #[inline]
    pub(crate) fn overwrite(&mut self, place: usize, bytes: &[u8]) {
        self.bytes[place..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Takes our own bytes from this place on out again. No range of the archive was put behind it.
    pub(crate) fn split_off(&mut self, place: usize) -> Vec<u8> {
        debug_assert!(place >= self.open_from, "what is closed stays");
        self.bytes.split_off(place)
    }

    /// Adds a decimal number.
    #[inline]
    pub fn put_number(&mut self, number: u64) {
        self.put(Decimal::new(number).digits());
    }

    /// Says by its number of which archive the ranges are that follow.
    #[inline]
    pub fn set_archive(&mut self, number: u16) {
        self.archive = number;
    }

    /// Adds a range of the archive.
    pub fn put_archive(&mut self, extent: Extent) {
        self.close_inline();
        self.segments.push(Segment::Archive(self.archive, extent));
        self.archive_bytes += extent.length;
    }

    /// All that waits, if it is our own bytes alone.
    #[must_use]
    #[inline]
    pub fn inline_only(&self) -> Option<&[u8]> {
        self.segments.is_empty().then_some(&self.bytes)
    }

    /// All that waits, if it is our own bytes and one range of an archive behind them.
    #[must_use]
    #[inline]
    pub fn inline_and_range(&self) -> Option<(&[u8], u16, Extent)> {
        match self.segments[..] {
            [Segment::Inline(own), Segment::Archive(archive, extent)] if own == self.bytes.len() => {
                Some((&self.bytes, archive, extent))
            }
            _ => None,
        }
    }

    /// All that waits: our own bytes, and the order in which they and ranges of the archive follow each
    /// other.
    pub fn parts(&mut self) -> (&[u8], &[Segment]) {
        self.close_inline();
        (&self.bytes, &self.segments)
    }

    /// Forgets all that waits, and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segments.clear();
        self.open_from = 0;
        self.archive_bytes = 0;
        // A head of unusual size made it grow: give that back.
        self.bytes.shrink_to(OUTPUT_BYTES);
    }

    fn close_inline(&mut self) {
        let own = self.bytes.len() - self.open_from;
        if own > 0 {
            self.segments.push(Segment::Inline(own));
            self.open_from = self.bytes.len();
        }
    }
}

impl Default for Output {
    fn default() -> Self {
        Output::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_bytes_gather_between_ranges_of_the_archive() {
        let mut output = Output::new();
        let extent = Extent { position: 5, length: 7 };
        output.put(b"ab");
        output.put_number(10);
        assert_eq!(output.inline_only(), Some(b"ab10".as_slice()));
        output.set_archive(3);
        output.put_archive(extent);
        assert_eq!(output.inline_only(), None);
        assert_eq!(output.inline_and_range(), Some((b"ab10".as_slice(), 3, extent)));
        output.put_archive(extent);
        assert_eq!(output.inline_and_range(), None);
        output.put(b"c");
        let archive = Segment::Archive(3, extent);
        assert_eq!(
            output.parts(),
            (b"ab10c".as_slice(), [Segment::Inline(4), archive, archive, Segment::Inline(1)].as_slice())
        );
        output.clear();
        assert!(output.is_empty());
        output.put_archive(extent);
        output.put(b"behind");
        assert_eq!(output.inline_and_range(), None, "only what comes first");
        output.clear();
        assert_eq!(output.parts(), (b"".as_slice(), [].as_slice()));
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut output = Output::new();
            output.put_number(number);
            assert_eq!(output.parts().0, number.to_string().as_bytes());
        }
    }
}
