//! Content of requests (RFC 9113 §6.1): counted against windows and thrown away.
//!
//! Never keeps a byte of it.

use super::Connection;
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::flow::WINDOW_BYTES;
use crate::h2::frame::{self, FrameHead, flag};
use crate::h2::stream::{BadContent, Content};
use crate::output::Output;

impl Connection {
    pub(super) fn take_data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        let id = head.stream;
        // RFC 9113 §6.1: none, or §5.1: idle.
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        let content = frame::unpadded(head, payload)?;
        if content.is_empty() {
            self.budget.frame()?;
        }
        // No frame is larger than what four bytes can tell.
        let [bytes, content_bytes] =
            [payload.len(), content.len()].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        self.receive(bytes, output);
        let ended = head.has(flag::END_STREAM);
        if self.is_beyond_end(id) {
            return Ok(());
        }
        if self.is_cut_off(id) {
            if ended {
                self.end_cut_off(id);
            }
            return Ok(());
        }
        let stream = self.streams.find(id).filter(|stream| stream.content != Content::Ended);
        let Some(stream) = stream else {
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        };
        stream.content.receive(bytes, content_bytes, ended).map_err(|bad| fault_of(id, bad))?;
        self.settle(id, output);
        Ok(())
    }

    /// Counts content that came against the connection's window, and widens that again when it is half used: nothing
    /// of it is kept.
    fn receive(&mut self, bytes: u32, output: &mut Output) {
        self.received += bytes;
        if self.received > WINDOW_BYTES / 2 {
            frame::put_window_update(output, self.received);
            self.received = 0;
        }
    }

    /// Trailers ended a request's content.
    pub(super) fn end_content(&mut self, id: u32) -> Result<(), Fault> {
        let Some(stream) = self.streams.find(id) else { return Ok(()) };
        stream.content.end().map_err(|bad| fault_of(id, bad))?;
        if stream.body.is_none() {
            self.streams.remove(id);
        }
        Ok(())
    }

    /// Lets a stream go whose answer has left and whose content has ended, or will not be read any further (RFC 9113
    /// §8.1).
    pub(in crate::h2) fn settle(&mut self, id: u32, output: &mut Output) {
        let Some(stream) = self.streams.find(id) else { return };
        if stream.body.is_some() {
            return;
        }
        match stream.content {
            Content::Ended => _ = self.streams.remove(id),
            Content::Coming { window: 0, .. } => {
                frame::put_reset(output, id, ErrorCode::None);
                self.streams.remove(id);
                self.cut_off(id);
            }
            Content::Coming { .. } => {}
        }
    }
}

fn fault_of(id: u32, bad: BadContent) -> Fault {
    match bad {
        BadContent::Length => Fault::Stream(id, ErrorCode::Protocol),
        BadContent::Window => Fault::Stream(id, ErrorCode::FlowControl),
    }
}
