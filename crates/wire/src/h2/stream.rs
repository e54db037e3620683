//! Waiting streams (RFC 9113 §5.1), and the scheduler that chooses the next one to send.
//!
//! A stream waits for its flow-control window or for the rest of the request content. If we answer a request
//! without content at once, it never becomes a stream. This module knows nothing about frames.

use std::time::Instant;

use super::body::Body;
use super::flow::{INITIAL_WINDOW_BYTES, TooLarge, Window};
use super::kept_request::Unanswered;
use crate::limits::STREAMS_MAX;
use crate::request::priority::Priority;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    /// Flow-control window for content that we send.
    pub(super) window: Window,
    pub(super) content: Content,
    /// The rest of the response, or `None` once we have written all of it.
    pub(super) body: Option<Body>,
    /// The request, if we will answer it later.
    pub(super) request: Option<Box<Unanswered>>,
    /// Time when we read the request, or completed the last block of content for a handler.
    pub(super) since: Option<Instant>,
}

impl Stream {
    /// Returns `true` when the response is complete and the stream only waits for request content we will
    /// discard.
    pub(super) fn is_answered(&self) -> bool {
        self.body.is_none() && self.request.is_none()
    }

    /// Returns `true` if the body has bytes to send.
    fn has_pending_bytes(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.is_starved())
    }
}

/// Request content state. Unless the request is kept, content is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// All of it has arrived: the stream is half-closed (remote).
    Ended,
    /// More may follow.
    Pending {
        /// Number of missing bytes, if the request announced a length.
        left: Option<u64>,
        /// The peer's window, in bytes. We will only enlarge it if a handler needs the content.
        window: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentError {
    /// It does not have the announced length (RFC 9113 §8.1.1).
    Length,
    /// It exceeds the window (RFC 9113 §6.9.1).
    Window,
}

impl Content {
    /// Returns the state after a head that does not end its stream. `length` is the announced length in
    /// bytes.
    pub(super) fn pending(length: Option<u64>) -> Content {
        Content::Pending { left: length, window: INITIAL_WINDOW_BYTES }
    }

    /// Accounts for a DATA frame. `content_bytes` is the payload length without padding.
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

    /// Reopens the receive window once half of it has been used. Returns the increment for WINDOW_UPDATE.
    pub(super) fn reopen_window(&mut self) -> Option<u32> {
        let Content::Pending { window, .. } = self else { return None };
        let used = INITIAL_WINDOW_BYTES.saturating_sub(*window);
        if used <= INITIAL_WINDOW_BYTES / 2 {
            return None;
        }
        *window = INITIAL_WINDOW_BYTES;
        Some(used)
    }

    /// Accounts for the end of the content, whose length must be the announced one.
    pub(super) fn end(&mut self) -> Result<(), ContentError> {
        match std::mem::replace(self, Content::Ended) {
            Content::Pending { left: Some(1..), .. } => Err(ContentError::Length),
            _ => Ok(()),
        }
    }
}

/// Waiting streams, in no particular order.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<Stream>,
    /// Number of streams with a body.
    bodies: usize,
    /// Number of open bodies among them. Open bodies are in memory and do not refer to an archive.
    open_bodies: usize,
    /// Number of streams with a request we will answer later.
    requests: usize,
    /// The incremental stream that sent last, for round-robin.
    last_incremental: u32,
}

impl Streams {
    pub(super) fn memory(&self) -> usize {
        let later = |stream: &Stream| {
            let request = stream.request.as_ref().map_or(0, |request| request.memory());
            request + stream.body.as_ref().map_or(0, Body::memory)
        };
        let kept: usize = self.list.iter().map(later).sum();
        self.list.capacity() * size_of::<Stream>() + kept
    }

    /// Returns `true` if there is a body that may refer to an archive.
    #[inline]
    pub(super) fn has_archive_bodies(&self) -> bool {
        self.bodies > self.open_bodies
    }

    /// Returns `true` if a body has bytes to send as soon as the windows allow.
    pub(super) fn has_pending_bytes(&self) -> bool {
        self.has_archive_bodies() || self.open_bodies > 0 && self.list.iter().any(Stream::has_pending_bytes)
    }

    /// Returns `true` if a request is waiting for its handler.
    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Returns `true` if a response is waiting for more of its body.
    pub(super) fn has_open_bodies(&self) -> bool {
        self.open_bodies > 0
    }

    #[inline]
    pub(super) fn has_bodies(&self) -> bool {
        self.bodies > 0
    }

    /// Returns `true` if a body with at least this urgency currently has bytes to send.
    #[inline]
    pub(super) fn has_bodies_before(&self, urgency: u8) -> bool {
        self.has_bodies()
            && self.list.iter().any(|stream| stream.has_pending_bytes() && stream.priority.urgency <= urgency)
    }

    /// Returns the start time of the oldest request with missing content.
    pub(super) fn incomplete_since(&self) -> Option<Instant> {
        let incomplete = self.list.iter().filter(|stream| matches!(stream.content, Content::Pending { .. }));
        incomplete.filter_map(|stream| stream.since).min()
    }

    /// Returns `true` if a request is missing content.
    pub(super) fn has_content(&self) -> bool {
        self.list.iter().any(|stream| matches!(stream.content, Content::Pending { .. }))
    }

    /// Returns `true` when there is no room for another stream.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= STREAMS_MAX as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        self.list.iter_mut().find(|stream| stream.id == id)
    }

    pub(super) fn add(&mut self, stream: Stream) {
        self.bodies += usize::from(stream.body.is_some());
        self.open_bodies += usize::from(stream.body.as_ref().is_some_and(Body::is_open));
        self.requests += usize::from(stream.request.is_some());
        self.list.push(stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let position = self.list.iter().position(|stream| stream.id == id)?;
        let stream = self.list.swap_remove(position);
        self.bodies -= usize::from(stream.body.is_some());
        self.open_bodies -= usize::from(stream.body.as_ref().is_some_and(Body::is_open));
        self.requests -= usize::from(stream.request.is_some());
        if self.list.is_empty() {
            // Idle connections are many. Don't keep memory for them.
            self.list = Vec::new();
        }
        Some(stream)
    }

    /// Adapts all windows to a new initial window size.
    pub(super) fn shift_windows(&mut self, before: u32, after: u32) -> Result<(), TooLarge> {
        self.list.iter_mut().try_for_each(|stream| stream.window.shift(before, after))
    }

    /// Chooses the stream that sends next (RFC 9218 §10), among those that have a body. Both windows must be
    /// open.
    ///
    /// More urgent streams come first. Among equally urgent ones, we send the non-incremental ones one after
    /// the other; then the incremental ones take turns.
    ///
    /// Note that an empty frame at the end of a body does not need a window (RFC 9113 §6.9.1).
    pub(super) fn next_to_send(&mut self, connection_window: u32) -> Option<&mut Stream> {
        let last_incremental = self.last_incremental;
        let can_send = |stream: &&mut Stream| match &stream.body {
            Some(body) if body.left() == 0 => body.is_complete(),
            Some(_) => connection_window > 0 && stream.window.bytes() > 0,
            None => false,
        };
        let next = self.list.iter_mut().filter(can_send).min_by_key(|stream| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, incremental, incremental && stream.id <= last_incremental, stream.id)
        })?;
        if next.priority.incremental {
            self.last_incremental = next.id;
        }
        Some(next)
    }

    /// Drops the body of a stream once all of it was written.
    pub(super) fn end_body(&mut self, id: u32) {
        let Some(stream) = self.find(id) else { return };
        let Some(body) = stream.body.take() else { return };
        self.bodies -= 1;
        self.open_bodies -= usize::from(body.is_open());
    }
}
