//! The content of a 206 with several parts, using `multipart/byteranges` (RFC 9110 §14.6). We never allocate this as a whole.
//!
//! The bytes are the same with all protocols. Each part needs a header with the representation's media type and coding, because the
//! whole body has a different type and is not coded.

use cannery_archive::{ETag, Extent, Head};

use crate::request::range::Parts;

/// Start of a boundary, to be followed by the entity tag. This way, the content cannot contain the boundary by accident, and all
/// machines use the same one.
const BOUNDARY_START: &[u8] = b"cannery_";

/// Several parts of a representation.
#[derive(Debug, Clone, Copy)]
pub struct Multipart<'a> {
    parts: &'a Parts,
    head: Head<'a>,
    /// The media type that a header rule sets, in place of the head's. Empty if a rule removes it.
    ruled_type: Option<&'a [u8]>,
    etag: &'a [u8; ETag::BYTES],
    body: Extent,
}

/// A piece of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: each protocol has to encode every kind.
pub enum MultipartPiece<'p> {
    /// A delimiter, or text of a header.
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
        Multipart { parts, head, ruled_type: None, etag, body }
    }

    /// Returns the same body with the media type of a header rule, or with none if it is empty.
    pub(crate) fn with_type(self, media_type: &'a [u8]) -> Multipart<'a> {
        Multipart { ruled_type: Some(media_type), ..self }
    }

    /// Returns the boundary in two pieces (RFC 2046 §5.1.1). It only consists of letters, digits, `-` and `_`, so we do not need
    /// quotes.
    #[must_use]
    pub fn boundary(&self) -> [&'a [u8]; 2] {
        [BOUNDARY_START, self.etag]
    }

    /// Returns the head. The response uses its fields about the resource.
    #[must_use]
    pub fn head(&self) -> &Head<'a> {
        &self.head
    }

    /// Calls `put` with each piece of the body.
    pub fn for_each_piece(&self, put: &mut dyn FnMut(MultipartPiece<'_>)) {
        use MultipartPiece::{Archive, Number, Text};

        for part in self.parts.as_slice() {
            put(Text(b"\r\n--"));
            put(Text(BOUNDARY_START));
            put(Text(self.etag));
            put(Text(b"\r\n"));
            match self.ruled_type {
                None => put(Text(self.head.content_type())),
                Some(b"") => {}
                Some(media_type) => {
                    put(Text(b"Content-Type: "));
                    put(Text(media_type));
                    put(Text(b"\r\n"));
                }
            }
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
        put(Text(BOUNDARY_START));
        put(Text(self.etag));
        put(Text(b"--\r\n"));
    }

    /// Returns the length of the body, in bytes.
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
