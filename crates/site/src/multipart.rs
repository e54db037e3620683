//! Several parts of a representation as one body: `multipart/byteranges` (RFC 9110 §14.6).
//!
//! The same bytes whatever the protocol. What describes the bytes, their type and coding, stands in the head
//! of each part: the body as a whole is of another type, and in no coding. Never allocates.

use cannery_archive::{ETag, Extent, Head};

use crate::range::Parts;

/// What every boundary begins with: the entity tag that follows makes it as good as certain that no line of
/// the body is one, and keeps it the same on every machine.
const BOUNDARY_START: &[u8] = b"cannery_";

/// Several parts of a representation as one body.
#[derive(Debug, Clone, Copy)]
pub struct Multipart<'a> {
    parts: &'a Parts,
    head: Head<'a>,
    etag: &'a [u8; ETag::BYTES],
    body: Extent,
}

/// A piece of such a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipartPiece<'p> {
    /// Bytes of delimiters and part heads.
    Text(&'p [u8]),
    /// A decimal number.
    Number(u64),
    /// A range of the archive.
    Archive(Extent),
}

impl<'a> Multipart<'a> {
    pub(crate) fn new(
        parts: &'a Parts,
        head: Head<'a>,
        etag: &'a [u8; ETag::BYTES],
        body: Extent,
    ) -> Multipart<'a> {
        Multipart { parts, head, etag, body }
    }

    /// The boundary, in two pieces (RFC 2046 §5.1.1). Made of letters, digits, `-` and `_`: needs no quotes.
    #[must_use]
    pub fn boundary(&self) -> [&'a [u8]; 2] {
        [BOUNDARY_START, self.etag]
    }

    /// The head whose fields about the resource go with the answer as a whole.
    #[must_use]
    pub fn head(&self) -> &Head<'a> {
        &self.head
    }

    /// Hands the pieces of the body to `put`, in order.
    pub fn for_each_piece(&self, put: &mut dyn FnMut(MultipartPiece<'_>)) {
        use MultipartPiece::{Archive, Number, Text};
        for part in self.parts.as_slice() {
            put(Text(b"\r\n--"));
            self.boundary().into_iter().for_each(|piece| put(Text(piece)));
            put(Text(b"\r\n"));
            put(Text(self.head.content_type()));
            put(Text(self.head.representation()));
            put(Text(b"Content-Range: bytes "));
            put(Number(part.position));
            put(Text(b"-"));
            put(Number(part.position + part.length - 1));
            put(Text(b"/"));
            put(Number(self.body.length));
            put(Text(b"\r\n\r\n"));
            put(Archive(Extent { position: self.body.position + part.position, length: part.length }));
        }
        put(Text(b"\r\n--"));
        self.boundary().into_iter().for_each(|piece| put(Text(piece)));
        put(Text(b"--\r\n"));
    }

    /// Bytes of the body.
    #[must_use]
    pub fn length(&self) -> u64 {
        let mut length = 0;
        self.for_each_piece(&mut |piece| {
            length += match piece {
                MultipartPiece::Text(text) => text.len() as u64,
                MultipartPiece::Number(number) => u64::from(number.checked_ilog10().unwrap_or(0)) + 1,
                MultipartPiece::Archive(extent) => extent.length,
            };
        });
        length
    }
}
