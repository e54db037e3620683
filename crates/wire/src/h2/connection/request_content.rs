//! Request content (RFC 9113 §6.1): counted for flow control, and discarded.

use super::Connection;
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::flow::INITIAL_WINDOW_BYTES;
use crate::h2::frame::{self, FrameHead, flag};
use crate::h2::stream::{Content, ContentError};
use crate::output::Output;

impl Connection {
    /// Counts the content of a DATA frame, and ends the stream if it is the last one.
    pub(super) fn handle_data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        let id = head.stream;
        // RFC 9113 §6.1: DATA must be on a stream; §5.1: which is not idle.
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        let content = frame::unpadded(head, payload)?;
        if content.is_empty() {
            self.budget.charge_frame()?;
        }

        // RFC 9113 §6.9.1: padding counts for flow control.
        let payload_bytes = frame::payload_bytes(payload);
        self.acknowledge(payload_bytes, output);

        let ends_stream = head.has(flag::END_STREAM);
        if self.is_beyond_goaway(id) {
            return Ok(());
        }
        if self.was_reset(id) {
            if ends_stream {
                self.forget_reset(id);
            }
            return Ok(());
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
        self.remove_if_done(id, output);
        Ok(())
    }

    /// Counts received content against the connection's window, and reopens the window once half of it is
    /// used. Content is never stored, so it needs no other limit.
    fn acknowledge(&mut self, bytes: u32, output: &mut Output) {
        self.unacknowledged += bytes;
        if self.unacknowledged > INITIAL_WINDOW_BYTES / 2 {
            frame::put_window_update(output, self.unacknowledged);
            self.unacknowledged = 0;
        }
    }

    /// Ends a request's content with trailers.
    pub(super) fn end_content(&mut self, id: u32) -> Result<(), Fault> {
        let Some(stream) = self.streams.find(id) else { return Ok(()) };
        stream.content.end().map_err(|error| stream_error(id, error))?;
        if stream.body.is_none() {
            self.streams.remove(id);
        }
        Ok(())
    }

    /// Removes a stream after its response was written, if its content has ended or cannot continue.
    ///
    /// Content that has used up its window is cut off by a reset (RFC 9113 §8.1).
    pub(in crate::h2) fn remove_if_done(&mut self, id: u32, output: &mut Output) {
        let Some(stream) = self.streams.find(id) else { return };
        if stream.body.is_some() {
            return;
        }
        match stream.content {
            Content::Ended => _ = self.streams.remove(id),
            Content::Pending { window: 0, .. } => {
                frame::put_reset(output, id, ErrorCode::None);
                self.streams.remove(id);
                self.remember_reset(id);
            }
            Content::Pending { .. } => {}
        }
    }
}

fn stream_error(id: u32, error: ContentError) -> Fault {
    match error {
        ContentError::Length => Fault::Stream(id, ErrorCode::Protocol),
        ContentError::Window => Fault::Stream(id, ErrorCode::FlowControl),
    }
}
