//! Output buffer. This contains encoded bytes, and references to ranges of archives that should be sent in
//! between.
//!
//! Responses to pipelined requests share an output, so that we can send all of them with a single system
//! call. Large bodies are never copied.

use cannery_archive::Extent;

use crate::ground::decimal::Decimal;
use crate::limits::{OUTPUT_BYTES, RESPONSE_BYTES_RESERVED, RESPONSE_SEGMENTS_MAX, SEGMENTS_MAX};

/// A part of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// This number of bytes from the buffer.
    Inline(usize),
    /// A range in the archive with this number.
    Archive(u16, Extent),
}

/// Bytes to send on a connection, in order. Each worker reuses a single output.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    /// Start of the inline bytes that are not part of a segment yet. `open_from <= bytes.len()`.
    open_from: usize,
    /// The archive that subsequent ranges refer to, by number.
    archive: u16,
    /// Total length of all archive ranges, in bytes.
    archive_bytes: u64,
}

impl Output {
    /// Creates an empty output with its full capacity.
    #[must_use]
    pub fn new() -> Output {
        Output {
            bytes: Vec::with_capacity(OUTPUT_BYTES),
            segments: Vec::with_capacity(SEGMENTS_MAX),
            open_from: 0,
            archive: 0,
            archive_bytes: 0,
        }
    }

    /// Returns `true` if there is room for another response. Otherwise, you should send the output first.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.bytes.len() + RESPONSE_BYTES_RESERVED <= OUTPUT_BYTES
            && self.segments.len() + RESPONSE_SEGMENTS_MAX < SEGMENTS_MAX
    }

    /// Returns `true` if there is nothing to send.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.segments.is_empty()
    }

    /// Returns the total length in bytes, archive ranges included.
    #[must_use]
    #[inline]
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.archive_bytes
    }

    /// Appends inline bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the inline bytes, for appending.
    #[inline]
    pub(crate) fn inline_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the number of inline bytes. This is also the position of the next one.
    #[inline]
    pub(crate) fn inline_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Overwrites inline bytes at `position`. They must exist.
    #[inline]
    pub(crate) fn overwrite(&mut self, position: usize, bytes: &[u8]) {
        self.bytes[position..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Removes and returns the inline bytes from `position` on. There must not be an archive range after
    /// `position`.
    pub(crate) fn split_off(&mut self, position: usize) -> Vec<u8> {
        debug_assert!(position >= self.open_from, "a segment holds these bytes");
        self.bytes.split_off(position)
    }

    /// Appends a decimal number.
    #[inline]
    pub fn put_number(&mut self, number: u64) {
        self.put(Decimal::new(number).digits());
    }

    /// Sets the archive that subsequent ranges refer to.
    #[inline]
    pub fn set_archive(&mut self, number: u16) {
        self.archive = number;
    }

    /// Appends a range of the current archive.
    pub fn put_archive(&mut self, extent: Extent) {
        self.close_inline();
        self.segments.push(Segment::Archive(self.archive, extent));
        self.archive_bytes += extent.length;
    }

    /// Returns the inline bytes if they are all there is to send.
    #[must_use]
    #[inline]
    pub fn inline_only(&self) -> Option<&[u8]> {
        self.segments.is_empty().then_some(&self.bytes)
    }

    /// Returns the inline bytes and the range after them, if the output has exactly these two segments.
    #[must_use]
    #[inline]
    pub fn inline_and_range(&self) -> Option<(&[u8], u16, Extent)> {
        match self.segments[..] {
            [Segment::Inline(bytes), Segment::Archive(archive, extent)] if bytes == self.bytes.len() => {
                Some((&self.bytes, archive, extent))
            }
            _ => None,
        }
    }

    /// Returns the inline bytes, and the segments that say how to send them.
    pub fn parts(&mut self) -> (&[u8], &[Segment]) {
        self.close_inline();
        (&self.bytes, &self.segments)
    }

    /// Removes everything but keeps the capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segments.clear();
        self.open_from = 0;
        self.archive_bytes = 0;
        // Do not keep the memory if a very large head has made the buffer grow.
        self.bytes.shrink_to(OUTPUT_BYTES);
    }

    /// Makes the open inline bytes a segment.
    fn close_inline(&mut self) {
        let bytes = self.bytes.len() - self.open_from;
        if bytes > 0 {
            self.segments.push(Segment::Inline(bytes));
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
    fn inline_bytes_gather_between_ranges() {
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
        output.put(b"after");
        assert_eq!(output.inline_and_range(), None, "the range comes first");
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
