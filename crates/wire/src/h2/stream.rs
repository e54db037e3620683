//! Waiting streams (RFC 9113 §5.1), and the scheduler that selects which of them sends next.
//!
//! A stream waits for its window, or for the rest of a request's content. A request without content that is
//! answered at once never becomes a stream here. This module knows no frames.

use super::body::Body;
use super::flow::{INITIAL_WINDOW_BYTES, TooLarge, Window};
use crate::limits::STREAMS_MAX;
use crate::priority::Priority;

/// A waiting stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    /// Flow-control window for content that we send.
    pub(super) window: Window,
    pub(super) content: Content,
    /// The rest of the response; `None` if all of it was written.
    pub(super) body: Option<Body>,
}

/// State of a request's content, which is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// There is no more: the stream is half-closed (remote).
    Ended,
    /// More may arrive.
    Pending {
        /// Bytes left, if the request announced its length.
        left: Option<u64>,
        /// Window of the peer, in bytes. It is never enlarged, because we don't need the content.
        window: u32,
    },
}

/// Why content is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentError {
    /// Its length is not the announced one (RFC 9113 §8.1.1).
    Length,
    /// It exceeds the window (RFC 9113 §6.9.1).
    Window,
}

impl Content {
    /// Returns the state after a head that doesn't end its stream. `length` is the announced length, in
    /// bytes.
    pub(super) fn pending(length: Option<u64>) -> Content {
        Content::Pending { left: length, window: INITIAL_WINDOW_BYTES }
    }

    /// Accounts for a DATA frame: the length of its payload, and the part of it that is not padding, in
    /// bytes.
    pub(super) fn receive(
        &mut self,
        payload_bytes: u32,
        content_bytes: u32,
        ends_stream: bool,
    ) -> Result<(), ContentError> {
        let Content::Pending { left, window } = self else { return Ok(()) };
        *window = window.checked_sub(payload_bytes).ok_or(ContentError::Window)?;
        if let Some(left) = left {
            *left = left.checked_sub(content_bytes.into()).ok_or(ContentError::Length)?;
        }
        if ends_stream {
            self.end()?;
        }
        Ok(())
    }

    /// Accounts for the end of the content.
    pub(super) fn end(&mut self) -> Result<(), ContentError> {
        match std::mem::replace(self, Content::Ended) {
            Content::Pending { left: Some(1..), .. } => Err(ContentError::Length),
            _ => Ok(()),
        }
    }
}

/// The waiting streams, in no order.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<Stream>,
    /// Number of streams with a body.
    bodies: usize,
    /// The incremental stream that sent last (round-robin).
    last_incremental: u32,
}

impl Streams {
    /// Returns the memory that they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
    }

    /// Returns `true` if a body waits.
    #[inline]
    pub(super) fn has_bodies(&self) -> bool {
        self.bodies > 0
    }

    /// Returns `true` if a body waits that is at least as urgent.
    #[inline]
    pub(super) fn has_bodies_before(&self, urgency: u8) -> bool {
        self.has_bodies()
            && self.list.iter().any(|stream| stream.body.is_some() && stream.priority.urgency <= urgency)
    }

    /// Returns `true` if more content of a request is awaited.
    pub(super) fn has_content(&self) -> bool {
        self.list.iter().any(|stream| matches!(stream.content, Content::Pending { .. }))
    }

    /// Returns `true` if no more streams may be opened.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= STREAMS_MAX as usize
    }

    /// Returns `true` if no stream waits.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        self.list.iter_mut().find(|stream| stream.id == id)
    }

    pub(super) fn add(&mut self, stream: Stream) {
        self.bodies += usize::from(stream.body.is_some());
        self.list.push(stream);
    }

    /// Removes a stream, whatever it waits for.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let position = self.list.iter().position(|stream| stream.id == id)?;
        let stream = self.list.swap_remove(position);
        self.bodies -= usize::from(stream.body.is_some());
        if self.list.is_empty() {
            // Frees the memory: an idle connection keeps none.
            self.list = Vec::new();
        }
        Some(stream)
    }

    /// Applies a change of the initial window size to all windows.
    pub(super) fn shift_windows(&mut self, before: u32, after: u32) -> Result<(), TooLarge> {
        self.list.iter_mut().try_for_each(|stream| stream.window.shift(before, after))
    }

    /// Selects the stream that sends next (RFC 9218 §10), among those with a body and an open window.
    ///
    /// The most urgent streams come first. Of these, non-incremental ones are sent one after the other, then
    /// incremental ones round-robin.
    pub(super) fn next_to_send(&mut self) -> Option<&mut Stream> {
        let last_incremental = self.last_incremental;
        let can_send = |stream: &&mut Stream| stream.body.is_some() && stream.window.bytes() > 0;
        let next = self.list.iter_mut().filter(can_send).min_by_key(|stream| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, incremental, incremental && stream.id <= last_incremental, stream.id)
        })?;
        if next.priority.incremental {
            self.last_incremental = next.id;
        }
        Some(next)
    }

    /// Drops the body of a stream, because all of it was written.
    pub(super) fn end_body(&mut self, id: u32) {
        let Some(stream) = self.find(id) else { return };
        if stream.body.take().is_some() {
            self.bodies -= 1;
        }
    }
}
