//! Pending response bodies, written in chunks.
//!
//! We never copy archive ranges here. This module does not know frames or flow-control windows.

use std::collections::VecDeque;

use cannery_archive::Extent;
use cannery_site::{ErrorPage, Multipart, MultipartPiece};

use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::response::output::{Output, Segment};

/// The part of a response body that has not been written yet.
#[derive(Debug)]
pub(super) enum Body {
    /// A range in the archive with this number.
    Archive(u16, Extent),
    /// Text with archive ranges in between.
    Pieces(Box<Pieces>),
    /// Bytes from a handler that produces them while we send.
    Open(Box<OpenBody>),
}

/// A body that may still grow.
#[derive(Debug, Default)]
pub(super) struct OpenBody {
    bytes: Vec<u8>,
    /// Number of bytes of `bytes` that were written.
    written: usize,
    /// Whether the body is complete.
    is_ended: bool,
}

impl OpenBody {
    /// Appends bytes. Returns the number of pending bytes.
    pub(super) fn append(&mut self, bytes: &[u8], ends: bool) -> usize {
        self.bytes.drain(..std::mem::take(&mut self.written));
        self.bytes.extend_from_slice(bytes);
        self.is_ended |= ends;
        self.left()
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.written
    }
}

/// Text with archive ranges in between.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Text of all pieces, concatenated.
    text: Vec<u8>,
    /// Number of bytes of `text` that were written.
    text_written: usize,
    pieces: VecDeque<Segment>,
    /// Remaining length of all pieces, in bytes.
    left: u64,
}

impl Body {
    pub(super) fn from_text(text: &[u8]) -> Body {
        let mut pieces = Pieces::default();
        pieces.add_text(text);
        Body::Pieces(Box::new(pieces))
    }

    pub(super) fn from_error_page(page: &ErrorPage<'_>) -> Body {
        let mut pieces = Pieces::default();
        page.for_each_piece(&mut |piece| pieces.add_text(piece));
        Body::Pieces(Box::new(pieces))
    }

    /// Creates a multipart body whose parts are ranges in the archive with this number.
    pub(super) fn from_multipart(multipart: &Multipart<'_>, archive: u16) -> Body {
        let mut pieces = Pieces::default();
        multipart.for_each_piece(&mut |piece| match piece {
            MultipartPiece::Text(text) => pieces.add_text(text),
            MultipartPiece::Number(number) => pieces.add_text(number.to_string().as_bytes()),
            MultipartPiece::Archive(extent) => pieces.add(Segment::Archive(archive, extent)),
        });
        Body::Pieces(Box::new(pieces))
    }

    #[inline]
    pub(super) fn left(&self) -> u64 {
        match self {
            Body::Archive(_, extent) => extent.length,
            Body::Pieces(pieces) => pieces.left,
            Body::Open(open) => open.left() as u64,
        }
    }

    /// Returns `true` if the body will not grow any more.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        !matches!(self, Body::Open(open) if !open.is_ended)
    }

    /// Returns `true` if we need to wait for the handler before we can send more.
    pub(super) fn is_starved(&self) -> bool {
        matches!(self, Body::Open(open) if !open.is_ended && open.left() == 0)
    }

    /// Returns `true` if a handler produces this body.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Body::Open(_))
    }

    /// Returns the memory used by copied bytes, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Body::Archive(..) => 0,
            Body::Pieces(pieces) => size_of::<Pieces>() + pieces.text.capacity(),
            Body::Open(open) => size_of::<OpenBody>() + open.bytes.capacity(),
        }
    }

    /// Returns the length of the next chunk, at most `bytes_max`. Chunks that need to be copied should be
    /// short.
    #[inline]
    pub(super) fn chunk_bytes(&self, bytes_max: u32) -> u32 {
        let bytes = match self {
            Body::Archive(_, extent) => extent.length,
            Body::Pieces(_) | Body::Open(_) => self.left().min(COPIED_BODY_BYTES_MAX),
        };
        // If it does not fit 32 bits, it's larger than `bytes_max`.
        u32::try_from(bytes).map_or(bytes_max, |bytes| bytes.min(bytes_max))
    }

    /// Writes the next `bytes` bytes to `output`. Not more than [`Body::left`].
    #[inline]
    pub(super) fn put(&mut self, bytes: u64, output: &mut Output) {
        match self {
            Body::Archive(archive, extent) => {
                let (part, rest) = split(*extent, bytes);
                output.set_archive(*archive);
                output.put_archive(part);
                *extent = rest;
            }
            Body::Pieces(pieces) => pieces.put(bytes, output),
            Body::Open(open) => {
                let end = open.written + usize::try_from(bytes).expect("no more than are left");
                output.put(&open.bytes[open.written..end]);
                open.written = end;
            }
        }
    }
}

impl Pieces {
    fn add_text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        match self.pieces.back_mut() {
            Some(Segment::Inline(bytes)) => {
                *bytes += text.len();
                self.left += text.len() as u64;
            }
            _ => self.add(Segment::Inline(text.len())),
        }
    }

    fn add(&mut self, piece: Segment) {
        self.left += length(piece);
        self.pieces.push_back(piece);
    }

    fn put(&mut self, bytes: u64, output: &mut Output) {
        let mut wanted = bytes;
        while let Some(piece) = self.pieces.front_mut() {
            let taken = length(*piece).min(wanted);
            match piece {
                Segment::Inline(left) => {
                    let taken = usize::try_from(taken).expect("no more than `left`");
                    output.put(&self.text[self.text_written..][..taken]);
                    self.text_written += taken;
                    *left -= taken;
                }
                Segment::Archive(archive, extent) => {
                    let (part, rest) = split(*extent, taken);
                    output.set_archive(*archive);
                    output.put_archive(part);
                    *extent = rest;
                }
            }

            wanted -= taken;
            self.left -= taken;
            if length(*piece) > 0 {
                return;
            }
            self.pieces.pop_front();
            if wanted == 0 {
                return;
            }
        }
    }
}

fn length(piece: Segment) -> u64 {
    match piece {
        Segment::Inline(bytes) => bytes as u64,
        Segment::Archive(_, extent) => extent.length,
    }
}

/// Splits a range in two, the first one `bytes` long.
fn split(extent: Extent, bytes: u64) -> (Extent, Extent) {
    let Extent { position, length } = extent;
    (Extent { position, length: bytes }, Extent { position: position + bytes, length: length - bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_survive_any_split() {
        let extent = Extent { position: 50, length: 10 };
        for step in 1..30 {
            let mut pieces = Pieces::default();
            pieces.add_text(b"ab");
            pieces.add_text(b"c");
            pieces.add(Segment::Archive(3, extent));
            pieces.add(Segment::Archive(3, extent));
            pieces.add_text(b"defg");
            let mut body = Body::Pieces(Box::new(pieces));
            let mut output = Output::new();

            assert_eq!(body.left(), 27);
            while body.left() > 0 {
                body.put(body.left().min(step), &mut output);
            }

            let (inline, segments) = output.parts();
            assert_eq!(inline, b"abcdefg");
            let mut lengths = Vec::new();
            for segment in segments {
                match segment {
                    Segment::Inline(bytes) => lengths.extend(std::iter::repeat_n(None, *bytes)),
                    Segment::Archive(3, Extent { position, length }) => {
                        lengths.extend((*position..position + length).map(Some));
                    }
                    Segment::Archive(..) => panic!("another archive"),
                }
            }
            let ranges = (50..60).chain(50..60).map(Some);
            let all = [None; 3].into_iter().chain(ranges).chain([None; 4]);
            assert_eq!(lengths, all.collect::<Vec<_>>(), "by {step}");
        }
    }
}
