//! Postponed requests, which are either still receiving their content or waiting for a handler to respond.
//!
//! Each of them occupies a stream, so their number is bounded by the stream limit. If the client resets the stream, we drop the
//! request.

use super::{Connection, FrameOutcome, PendingRequest, ReceivedContent, StreamId};
use crate::h2::body::Body;
use crate::h2::error::ErrorCode;
use crate::h2::frame;
use crate::h2::kept_request::{KeptRequest, Unanswered};
use crate::h2::stream::{Content, Stream};
use crate::limits::CONTENT_BLOCK_BYTES;
use crate::request::stored::StoredRequest;
use crate::response::output::Output;

impl Connection {
    /// Turns the pending request into a stream.
    pub(in crate::h2) fn keep(&mut self, stream: StreamId, kept: Option<KeptRequest>) {
        let Some(PendingRequest { id, info, content, window }) = self.take_request(stream) else { return };
        let request = Some(Box::new(Unanswered { info, kept }));
        let (priority, since) = (info.priority, self.time);
        self.streams.add(Stream { id, priority, window, content, body: None, request, since });
    }

    /// Makes a postponed request the pending one, so that it can be answered. Returns `None` if it no longer exists, and
    /// `Some(None)` if it was kept without its content.
    pub(in crate::h2) fn resume_kept(&mut self, stream: StreamId) -> Option<Option<StoredRequest>> {
        self.streams.find(stream.number()).filter(|stream| stream.request.is_some())?;
        let Stream { id, priority, window, content, request, .. } = self.streams.remove(stream.number())?;
        let Unanswered { mut info, kept } = *request?;
        info.priority = priority;
        self.pending_request = Some(PendingRequest { id, info, content, window });
        Some(kept.map(|kept| kept.request))
    }

    /// Stores content for a handler.
    #[cold]
    pub(super) fn keep_content(&mut self, id: u32, bytes: &[u8], output: &mut Output) -> FrameOutcome {
        let Some(stream) = self.streams.find(id) else { return FrameOutcome::Continue };
        let Some(kept) = stream.request.as_mut().and_then(|request| request.kept.as_mut()) else {
            // The handler is already running and did not ask for content.
            return FrameOutcome::Continue;
        };

        if kept.request.content().len() + bytes.len() > kept.bytes_max {
            return FrameOutcome::Received(id, ReceivedContent::TooLong);
        }
        // Each complete block restarts the timeout, since handlers may accept large uploads from slow clients.
        let blocks_before = kept.request.content().len() / CONTENT_BLOCK_BYTES;
        kept.request.content_mut().extend_from_slice(bytes);
        if kept.request.content().len() / CONTENT_BLOCK_BYTES > blocks_before {
            stream.since = self.time;
        }

        if stream.content == Content::Ended {
            return FrameOutcome::Received(id, ReceivedContent::Whole);
        }
        if let Some(bytes) = stream.content.reopen_window() {
            frame::put_stream_window_update(output, id, bytes);
        }
        FrameOutcome::Continue
    }

    /// Completes the content of a request.
    pub(super) fn finish_content(&mut self, id: u32) -> FrameOutcome {
        let kept = self.streams.find(id).and_then(|stream| stream.request.as_ref()?.kept.as_ref());
        match kept {
            Some(_) => FrameOutcome::Received(id, ReceivedContent::Whole),
            None => FrameOutcome::Continue,
        }
    }

    /// Cleans up after a response: if the client may send more request content that we cannot use, the stream is reset.
    pub fn settle(&mut self, stream: StreamId, output: &mut Output) {
        self.remove_if_done(stream.number(), output);
    }

    /// Appends bytes to an open body. Returns the number of pending bytes, or `None` if the client has cancelled the request.
    pub fn append_body(&mut self, stream: StreamId, bytes: &[u8], ends: bool) -> Option<usize> {
        match &mut self.streams.find(stream.number())?.body {
            Some(Body::Open(open)) => Some(open.append(bytes, ends)),
            _ => None,
        }
    }

    /// Returns the number of pending bytes of an open body, or `None` if the stream does not have an open body.
    #[must_use]
    pub fn pending_body_bytes(&mut self, stream: StreamId) -> Option<u64> {
        let body = self.streams.find(stream.number())?.body.as_ref()?;
        body.is_open().then(|| body.left())
    }

    /// Resets a stream whose response we cannot complete.
    pub fn abort_response(&mut self, stream: StreamId, output: &mut Output) {
        let id = stream.number();
        if let Some(stream) = self.streams.remove(id) {
            frame::put_reset(output, id, ErrorCode::Internal);
            if stream.content != Content::Ended {
                self.remember_reset(id);
            }
        }
    }
}
