//! Response bodies, which are ranges of the archive and never copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A response body.
///
/// Chunks of data refer to the archive, so it will stay in memory until the last of them is dropped. This type implements
/// [`http_body::Body`]; if a server has other body types, you can also use it as an iterator.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// Remaining pieces in reverse order. There is typically one: only multipart responses, for several ranges,
    /// have more.
    later: Vec<Bytes>,
    next: Bytes,
    length: u64,
}

impl Body {
    /// Returns an empty body.
    #[must_use]
    pub fn empty() -> Body {
        Body::default()
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns `true` if no bytes are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns `true` if the rest is a single piece, which [`Bytes::from`] doesn't copy.
    #[cfg(feature = "actix-web")]
    pub(crate) fn is_one_piece(&self) -> bool {
        self.later.is_empty()
    }

    pub(crate) fn of(content: Bytes) -> Body {
        Body { length: content.len() as u64, next: content, later: Vec::new() }
    }

    pub(crate) fn of_pieces(mut pieces: Vec<Bytes>) -> Body {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        pieces.reverse();
        let next = pieces.pop().unwrap_or_default();
        Body { later: pieces, next, length }
    }
}

impl Iterator for Body {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.length > 0 {
            let piece = std::mem::replace(&mut self.next, self.later.pop().unwrap_or_default());
            self.length -= piece.len() as u64;
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

impl From<Body> for Bytes {
    /// Returns the whole body.
    ///
    /// If it has several pieces, they are copied.
    fn from(mut body: Body) -> Bytes {
        if body.later.is_empty() {
            return body.next;
        }
        body.by_ref()
            .fold(Vec::new(), |mut whole, piece| {
                whole.extend_from_slice(&piece);
                whole
            })
            .into()
    }
}
