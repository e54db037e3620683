//! Stream IDs (RFC 9113 §5.1, §5.1.1): tells which streams were opened, skipped, or reset by us.
//!
//! We only remember the latest streams, because most others no longer exist or never did.

use super::header_blocks::BlockRole;
use super::{Connection, Goaway};
use crate::h2::error::ErrorCode;
use crate::h2::stream::Content;
use crate::limits::RESET_STREAMS_REMEMBERED_MAX;

impl Connection {
    /// Returns what a header block on this stream is for (RFC 9113 §5.1, §5.1.1). A new stream is opened.
    #[inline]
    pub(super) fn role_of(&mut self, id: u32) -> Result<BlockRole, ErrorCode> {
        if id > self.last_stream && id % 2 == 1 {
            let steps = (id - self.last_stream) / 2;
            // If the gap exceeds the 64 bits, all remembered streams were skipped.
            self.opened_streams = self.opened_streams.checked_shl(steps).unwrap_or(0) | 1;
            self.last_stream = id;
            let is_ignored = self.is_beyond_goaway(id);
            return Ok(if is_ignored { BlockRole::Ignored } else { BlockRole::Request });
        }
        self.role_of_old(id)
    }

    #[cold]
    fn role_of_old(&mut self, id: u32) -> Result<BlockRole, ErrorCode> {
        if id.is_multiple_of(2) {
            return Err(ErrorCode::Protocol);
        }

        match self.streams.find(id).map(|stream| stream.content) {
            Some(Content::Pending { .. }) => Ok(BlockRole::Trailers),
            Some(Content::Ended) => Ok(BlockRole::AfterEnd),
            None if self.is_beyond_goaway(id) || self.was_reset(id) => Ok(BlockRole::Ignored),
            // RFC 9113 §5.1: the stream is closed.
            None if self.was_opened(id) => Err(ErrorCode::StreamClosed),
            // RFC 9113 §5.1.1: the stream was skipped, so its ID is unexpected.
            None => Err(ErrorCode::Protocol),
        }
    }

    /// Returns `true` for streams the peer has not opened yet, for streams that only the server may open, and for stream 0.
    pub(in crate::h2) fn is_idle(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    /// Returns `true` if our final GOAWAY excluded this stream, so that its frames should be ignored (RFC 9113 §6.8).
    pub(super) fn is_beyond_goaway(&self, id: u32) -> bool {
        matches!(self.goaway, Goaway::Final(last) if id > last)
    }

    /// Remembers a stream that we reset because the peer may have sent frames on it. If there are too many, forgets the oldest one.
    pub(super) fn remember_reset(&mut self, id: u32) {
        if self.reset_streams.len() >= RESET_STREAMS_REMEMBERED_MAX {
            self.reset_streams.remove(0);
        }
        self.reset_streams.push(id);
    }

    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.reset_streams.contains(&id)
    }

    /// Forgets a stream we reset. There will be no more frames once the peer has ended it.
    pub(in crate::h2) fn forget_reset(&mut self, id: u32) {
        self.reset_streams.retain(|other| *other != id);
        if self.reset_streams.is_empty() {
            self.reset_streams = Vec::new();
        }
    }

    /// Returns `true` if the peer opened this stream, which must not be above `last_stream`. We only remember 64 streams and assume
    /// that all earlier ones were opened.
    fn was_opened(&self, id: u32) -> bool {
        let steps = (self.last_stream - id) / 2;
        self.opened_streams.checked_shr(steps).is_none_or(|opened| opened & 1 == 1)
    }
}
