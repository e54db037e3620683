//! Request content (RFC 9113 §6.1). We always count it for flow control, but discard it unless a handler needs it.

use super::{Connection, FrameOutcome};
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::flow::INITIAL_WINDOW_BYTES;
use crate::h2::frame::{self, FrameHead, flag};
use crate::h2::stream::{Content, ContentError};
use crate::response::output::Output;

impl Connection {
    /// Handles a DATA frame by counting its content. If this is the last frame, the stream ends.
    pub(super) fn handle_data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<FrameOutcome, Fault> {
        let id = head.stream;
        // RFC 9113 §6.1: DATA cannot be on stream 0. §5.1: nor on an idle stream.
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        let content = frame::unpadded(head, payload)?;
        // Empty frames are cheap for the peer, so we limit their number.
        if content.is_empty() {
            self.budget.charge_frame()?;
        }

        // RFC 9113 §6.9.1: padding counts for flow control.
        let payload_bytes = frame::payload_bytes(payload);
        self.acknowledge(payload_bytes, output);

        let ends_stream = head.has(flag::END_STREAM);
        // For us, these streams are closed. However, the peer might not know yet, so this is not an error.
        if self.is_beyond_goaway(id) {
            return Ok(FrameOutcome::Continue);
        }
        if self.was_reset(id) {
            if ends_stream {
                self.forget_reset(id);
            }
            return Ok(FrameOutcome::Continue);
        }

        let stream = self.streams.find(id).filter(|stream| stream.content != Content::Ended);
        let Some(stream) = stream else {
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        };
        let content_bytes = frame::payload_bytes(content);
        stream
            .content
            .receive(payload_bytes, content_bytes, ends_stream)
            .map_err(|error| stream_error(id, error))?;

        if let Some(streamed) = self.streamed.find(id) {
            // As for content that is kept, each complete block restarts the timeout.
            if streamed.receive(content) && stream.since.is_some() {
                stream.since = self.time;
            }
            if ends_stream {
                streamed.end();
            }
            return Ok(FrameOutcome::Continue);
        }
        if stream.request.is_some() {
            return Ok(self.keep_content(id, content, output));
        }
        self.remove_if_done(id, output);
        Ok(FrameOutcome::Continue)
    }

    /// Counts received content against the connection window. We reopen this window once half of it has been used.
    ///
    /// This is acceptable even for content we keep, since there is a limit for each request, and one for the memory of the
    /// connection as a whole.
    fn acknowledge(&mut self, bytes: u32, output: &mut Output) {
        self.unacknowledged += bytes;
        if self.unacknowledged > INITIAL_WINDOW_BYTES / 2 {
            frame::put_window_update(output, self.unacknowledged);
            self.unacknowledged = 0;
        }
    }

    /// Handles trailers, which end the request content.
    pub(super) fn end_content(&mut self, id: u32) -> Result<FrameOutcome, Fault> {
        let Some(stream) = self.streams.find(id) else { return Ok(FrameOutcome::Continue) };
        stream.content.end().map_err(|error| stream_error(id, error))?;
        if let Some(streamed) = self.streamed.find(id) {
            streamed.end();
            return Ok(FrameOutcome::Continue);
        }
        if stream.request.is_some() {
            return Ok(self.finish_content(id));
        }
        if stream.is_answered() {
            self.streams.remove(id);
        }
        Ok(FrameOutcome::Continue)
    }

    /// Removes an answered stream if its content has ended, or cannot continue.
    ///
    /// Content that has used up the window cannot continue. In this case we reset the stream, since we do not need the rest (RFC
    /// 9113 §8.1). Otherwise, the client has to send the rest in time, even if it was held back before the response.
    pub(in crate::h2) fn remove_if_done(&mut self, id: u32, output: &mut Output) {
        let time = self.time;
        let Some(stream) = self.streams.find(id) else { return };
        if !stream.is_answered() {
            return;
        }
        match stream.content {
            Content::Ended => _ = self.streams.remove(id),
            Content::Pending { window: 0, .. } => {
                frame::put_reset(output, id, ErrorCode::None);
                self.streams.remove(id);
                self.remember_reset(id);
            }
            Content::Pending { .. } => stream.since = stream.since.or(time),
        }
    }
}

fn stream_error(id: u32, error: ContentError) -> Fault {
    match error {
        ContentError::Length => Fault::Stream(id, ErrorCode::Protocol),
        ContentError::Window => Fault::Stream(id, ErrorCode::FlowControl),
    }
}
