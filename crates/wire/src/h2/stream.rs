//! The streams that wait (RFC 9113 §5.1): for room, or for the rest of a request's content; and which of them sends
//! next.
//!
//! A stream whose request ends with its head and whose answer leaves at once never comes here. Never knows frames.

use super::body::Body;
use super::flow::{TooLarge, WINDOW_BYTES, Window};
use super::priority::Priority;
use crate::limits::STREAMS_MAX;

/// A stream that waits.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    /// What the peer has room for on it.
    pub(super) window: Window,
    pub(super) content: Content,
    /// What is left of the answer; nothing if all of it has left.
    pub(super) body: Option<Body>,
}

/// The content of a request, which is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// There is none, or it has ended: half-closed (remote).
    Ended,
    /// It is still to come.
    Coming {
        /// How much, if the request said so.
        left: Option<u64>,
        /// How much more the peer may send: the window is never widened, for nobody reads it.
        window: u32,
    },
}

/// What is wrong with a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadContent {
    /// It is not as long as its head said (RFC 9113 §8.1.1).
    Length,
    /// There is more than there was room for (RFC 9113 §6.9.1).
    Window,
}

impl Content {
    /// That of a request that was not at its end with its head.
    pub(super) fn coming(length: Option<u64>) -> Content {
        Content::Coming { left: length, window: WINDOW_BYTES }
    }

    /// So many bytes came, of which `content` are no padding, and perhaps the end.
    pub(super) fn receive(&mut self, bytes: u32, content: u32, ended: bool) -> Result<(), BadContent> {
        let Content::Coming { left, window } = self else { return Ok(()) };
        *window = window.checked_sub(bytes).ok_or(BadContent::Window)?;
        if let Some(left) = left {
            *left = left.checked_sub(content.into()).ok_or(BadContent::Length)?;
        }
        if ended {
            self.end()?;
        }
        Ok(())
    }

    /// The end came.
    pub(super) fn end(&mut self) -> Result<(), BadContent> {
        let was = std::mem::replace(self, Content::Ended);
        match was {
            Content::Coming { left: Some(1..), .. } => Err(BadContent::Length),
            _ => Ok(()),
        }
    }
}

/// The streams that wait, in no order.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<Stream>,
    /// How many of them have a body.
    bodies: usize,
    /// The stream that took its turn last among those that share the line.
    last_turn: u32,
}

impl Streams {
    /// The memory that they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
    }

    /// Whether a body waits.
    #[inline]
    pub(super) fn has_bodies(&self) -> bool {
        self.bodies > 0
    }

    /// Whether a body of this urgency, or of a higher one, waits.
    #[inline]
    pub(super) fn has_bodies_before(&self, urgency: u8) -> bool {
        self.has_bodies()
            && self.list.iter().any(|stream| stream.body.is_some() && stream.priority.urgency <= urgency)
    }

    /// Whether a request's content is still to come.
    pub(super) fn has_content(&self) -> bool {
        self.list.iter().any(|stream| matches!(stream.content, Content::Coming { .. }))
    }

    /// Whether as many are open as there may be.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= STREAMS_MAX as usize
    }

    /// Whether none is open.
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

    /// Takes a stream out, whatever it waits for.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let place = self.list.iter().position(|stream| stream.id == id)?;
        let stream = self.list.swap_remove(place);
        self.bodies -= usize::from(stream.body.is_some());
        if self.list.is_empty() {
            // An idle connection holds nothing.
            self.list = Vec::new();
        }
        Some(stream)
    }

    /// Changes all windows as the one changes that streams begin with.
    pub(super) fn shift_windows(&mut self, before: u32, after: u32) -> Result<(), TooLarge> {
        self.list.iter_mut().try_for_each(|stream| stream.window.shift(before, after))
    }

    /// The stream that sends next (RFC 9218 §10): of those that have something to send and room for it the most urgent;
    /// among these first those that are wanted whole, one after the other, then all others in turns.
    pub(super) fn next_to_send(&mut self) -> Option<&mut Stream> {
        let last_turn = self.last_turn;
        let can_send = |stream: &&mut Stream| stream.body.is_some() && stream.window.bytes() > 0;
        let next = self.list.iter_mut().filter(can_send).min_by_key(|stream| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, incremental, incremental && stream.id <= last_turn, stream.id)
        })?;
        if next.priority.incremental {
            self.last_turn = next.id;
        }
        Some(next)
    }

    /// The body of a stream has left as a whole.
    pub(super) fn end_body(&mut self, id: u32) {
        let Some(stream) = self.find(id) else { return };
        if stream.body.take().is_some() {
            self.bodies -= 1;
        }
    }

    /// Bytes that this takes beside itself.
    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
    }
}
