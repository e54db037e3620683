//! Which streams were opened, passed over, or reset by us, as far as that is remembered (RFC 9113 §5.1, §5.1.1).
//!
//! Never holds a stream: most have none by the time that somebody asks.

use super::header_blocks::Role;
use super::{Connection, Going};
use crate::h2::error::ErrorCode;
use crate::h2::stream::Content;
use crate::limits::RESET_STREAMS_REMEMBERED_MAX;

impl Connection {
    /// What a header block on this stream is for (RFC 9113 §5.1, §5.1.1). Opens the stream if it is new.
    #[inline]
    pub(super) fn role_of(&mut self, id: u32) -> Result<Role, ErrorCode> {
        if id > self.last && id % 2 == 1 {
            let steps = (id - self.last) / 2;
            self.opened = self.opened.checked_shl(steps).unwrap_or(0) | 1;
            self.last = id;
            return Ok(if self.is_beyond_end(id) { Role::Nothing } else { Role::Request });
        }
        self.role_of_old(id)
    }

    #[cold]
    fn role_of_old(&mut self, id: u32) -> Result<Role, ErrorCode> {
        if id.is_multiple_of(2) {
            return Err(ErrorCode::Protocol);
        }
        match self.streams.find(id).map(|stream| stream.content) {
            Some(Content::Coming { .. }) => Ok(Role::Trailers),
            Some(Content::Ended) => Ok(Role::Late),
            None if self.is_beyond_end(id) || self.is_cut_off(id) => Ok(Role::Nothing),
            // RFC 9113 §5.1: closed; or §5.1.1: passed over, and so unexpected.
            None if self.was_opened(id) => Err(ErrorCode::StreamClosed),
            None => Err(ErrorCode::Protocol),
        }
    }

    /// Whether a stream is one that nobody has opened yet, such as all those that are ours to open; or none.
    pub(in crate::h2) fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    /// Whether a stream is beyond those that we have said we answer: its frames are thrown away (RFC 9113 §6.8).
    pub(super) fn is_beyond_end(&self, id: u32) -> bool {
        matches!(self.going, Going::Gone(last) if id > last)
    }

    /// Remembers that we have reset a stream on which more may be under way, and forgets the first of too many.
    pub(super) fn cut_off(&mut self, id: u32) {
        if self.cut_off.len() >= RESET_STREAMS_REMEMBERED_MAX {
            self.cut_off.remove(0);
        }
        self.cut_off.push(id);
    }

    pub(super) fn is_cut_off(&self, id: u32) -> bool {
        self.cut_off.contains(&id)
    }

    /// The peer has ended the stream: nothing more is under way.
    pub(in crate::h2) fn end_cut_off(&mut self, id: u32) {
        self.cut_off.retain(|other| *other != id);
        if self.cut_off.is_empty() {
            self.cut_off = Vec::new();
        }
    }

    /// Whether a stream up to the last was opened and not passed over, as far as that is remembered.
    fn was_opened(&self, id: u32) -> bool {
        let steps = (self.last - id) / 2;
        self.opened.checked_shr(steps).is_none_or(|opened| opened & 1 == 1)
    }
}
