//! Batch of small responses of several connections, which are sent one after the other.
//!
//! Alternating between reading and sending makes the server's code and the kernel's evict each other from the processor's
//! caches. Answering several connections first and then sending to all of them takes a few percent less time. The batch
//! holds the bytes that were written for each response, and where in an archive its body is. It never sends.

use std::ops::Range;

use cannery_archive::Extent;
use cannery_eventloop::Token;

/// The most responses in a batch. A larger batch would save little, and delay the first response.
const RESPONSES_MAX: usize = 32;

/// Inline bytes of one batched response, which are copied into the batch: a head, and a small body.
const INLINE_BYTES_MAX: usize = 12 * 1024;

/// Inline bytes of all responses in a batch.
const BATCH_BYTES_MAX: usize = 128 * 1024;

/// The body of a response: a range of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    /// The number of the archive.
    pub(super) archive: u16,
    pub(super) extent: Extent,
}

/// Responses to be sent, in order.
#[derive(Debug)]
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    /// The connection of each response, and where its inline bytes end.
    ends: Vec<(Token, usize)>,
    /// Responses that were taken out.
    taken: usize,
    /// Bodies that follow the inline bytes, each with the index of its response. They are stored apart, because most
    /// responses have none.
    bodies: Vec<(usize, Body)>,
    bodies_taken: usize,
}

impl SendBatch {
    /// Returns an empty batch with memory for the largest one.
    pub(super) fn new() -> SendBatch {
        SendBatch {
            bytes: Vec::with_capacity(BATCH_BYTES_MAX),
            ends: Vec::with_capacity(RESPONSES_MAX),
            taken: 0,
            bodies: Vec::with_capacity(RESPONSES_MAX),
            bodies_taken: 0,
        }
    }

    /// Returns `true` if a response with this many inline bytes is small enough for a batch.
    #[inline]
    pub(super) fn fits(inline_bytes: usize) -> bool {
        (1..=INLINE_BYTES_MAX).contains(&inline_bytes)
    }

    /// Adds the inline bytes of a response. Its body follows, if it has one, and then its connection.
    #[inline]
    pub(super) fn push(&mut self, inline: &[u8]) {
        self.bytes.extend_from_slice(inline);
    }

    /// Adds the body of the response that was pushed last.
    #[inline]
    pub(super) fn push_body(&mut self, body: Body) {
        self.bodies.push((self.ends.len(), body));
    }

    /// Completes the response that was pushed last with the token of its connection.
    #[inline]
    pub(crate) fn complete(&mut self, token: Token) {
        self.ends.push((token, self.bytes.len()));
    }

    /// Returns `true` if another response might not fit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= RESPONSES_MAX || self.bytes.len() > BATCH_BYTES_MAX - INLINE_BYTES_MAX
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes out the first response: the token of its connection, and the range of its inline bytes, which is valid
    /// until the batch is empty.
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

    /// Takes out the body of the response that was popped last, if it has one.
    #[inline]
    pub(crate) fn pop_body(&mut self) -> Option<Body> {
        let &(response, body) = self.bodies.get(self.bodies_taken)?;
        if response + 1 != self.taken {
            return None;
        }
        self.bodies_taken += 1;
        Some(body)
    }

    /// Returns the inline bytes of a response.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Drops a response that was pushed and not completed.
    #[cold]
    pub(super) fn drop_incomplete(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&(_, end)| end));
        let responses = self.ends.len();
        self.bodies.retain(|&(response, _)| response < responses);
    }
}

#[cfg(test)]
mod tests;
