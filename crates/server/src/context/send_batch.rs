//! A batch of small responses to several connections.
//!
//! If a server alternates between reading and sending, its own code and the kernel's keep evicting each other
//! from the processor's caches. Answering several connections first and then sending all of the responses
//! takes a few percent less time.
//!
//! The batch never sends anything itself; it only stores response bytes and references to bodies in archives.

use std::ops::Range;

use cannery_archive::Extent;
use cannery_eventloop::Token;

/// The maximum number of responses in a batch. A larger batch would delay the first response without
/// saving much.
const RESPONSES_MAX: usize = 32;

/// Responses with up to this many inline bytes (typically a head and a small body) can be batched. All of
/// these bytes are copied into the batch.
const INLINE_BYTES_MAX: usize = 12 * 1024;

/// Maximum number of inline bytes in a batch.
const BATCH_BYTES_MAX: usize = 128 * 1024;

/// A response body: a range of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    /// Number of the archive.
    pub(crate) archive: u16,
    pub(crate) extent: Extent,
}

/// Responses to be sent, in order.
#[derive(Debug)]
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    /// For each response, the connection and the end of the inline bytes.
    ends: Vec<(Token, usize)>,
    /// Responses that have been taken out.
    taken: usize,
    /// Bodies along with the index of the response each belongs to. They are stored separately since most
    /// responses have none.
    bodies: Vec<(usize, Body)>,
    bodies_taken: usize,
}

impl SendBatch {
    /// Creates an empty batch with enough capacity for the largest one.
    pub(crate) fn new() -> SendBatch {
        SendBatch {
            bytes: Vec::with_capacity(BATCH_BYTES_MAX),
            ends: Vec::with_capacity(RESPONSES_MAX),
            taken: 0,
            bodies: Vec::with_capacity(RESPONSES_MAX),
            bodies_taken: 0,
        }
    }

    /// Returns `true` if a response with this many inline bytes can be batched.
    #[inline]
    pub(crate) fn fits(inline_bytes: usize) -> bool {
        (1..=INLINE_BYTES_MAX).contains(&inline_bytes)
    }

    /// Adds the inline bytes of a response. Callers should add the body (if any) next, and finally the
    /// connection.
    #[inline]
    pub(crate) fn push(&mut self, inline: &[u8]) {
        self.bytes.extend_from_slice(inline);
    }

    /// Adds a body to the response that was pushed last.
    #[inline]
    pub(crate) fn push_body(&mut self, body: Body) {
        self.bodies.push((self.ends.len(), body));
    }

    /// Completes the response that was pushed last.
    #[inline]
    pub(crate) fn complete(&mut self, token: Token) {
        self.ends.push((token, self.bytes.len()));
    }

    /// Returns `true` if there might not be room for another response.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= RESPONSES_MAX || self.bytes.len() > BATCH_BYTES_MAX - INLINE_BYTES_MAX
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes out the first response. Returns the connection's token and the range of the inline bytes, which
    /// will be valid until the batch is empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Token, Range<usize>)> {
        let Some(&(token, end)) = self.ends.get(self.taken) else {
            self.bytes.clear();
            self.ends.clear();
            self.bodies.clear();
            self.taken = 0;
            self.bodies_taken = 0;
            return None;
        };
        let begin = if self.taken == 0 { 0 } else { self.ends[self.taken - 1].1 };
        self.taken += 1;
        Some((token, begin..end))
    }

    /// Takes out the body (if any) of the response that was popped last.
    #[inline]
    pub(crate) fn pop_body(&mut self) -> Option<Body> {
        let &(response, body) = self.bodies.get(self.bodies_taken)?;
        if response + 1 != self.taken {
            return None;
        }
        self.bodies_taken += 1;
        Some(body)
    }

    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Drops a response that was pushed but not completed.
    #[cold]
    pub(crate) fn drop_incomplete(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&(_, end)| end));
        let responses = self.ends.len();
        self.bodies.retain(|&(response, _)| response < responses);
    }
}

#[cfg(test)]
mod tests;
