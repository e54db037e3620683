//! Control frames: settings, windows, resets, pings, priorities, graceful shutdown (RFC 9113 §6.3 to §6.9, RFC
//! 9218 §7.1).
//!
//! Each of them is charged to the connection's budget, since none makes us send a response.

use super::connection::{Connection, Goaway, Stage};
use super::error::{ErrorCode, Fault};
use super::flow::TooLarge;
use super::frame::{self, FrameHead, flag, kind};
use super::settings;
use crate::limits::PRIORITIES_REMEMBERED_MAX;
use crate::request::priority::Priority;
use crate::response::output::Output;

/// Payload of the PING that follows our first GOAWAY. When this is acknowledged, we know that the peer has also seen the GOAWAY.
const GOAWAY_PING: [u8; 8] = *b"cannery!";

/// Last stream in our first GOAWAY, higher than any other ID. It announces that another GOAWAY will follow (RFC 9113 §6.8).
const ANY_STREAM: u32 = 0x7fff_ffff;

impl Connection {
    /// Starts a graceful shutdown by notifying the peer (RFC 9113 §6.8). We will still answer requests the peer sent before it was
    /// notified. See [`Connection::has_ended`].
    pub fn go_away(&mut self, output: &mut Output) {
        if self.goaway == Goaway::NotSent && self.stage != Stage::Closed {
            self.goaway = Goaway::Announced;
            frame::put_goaway(output, ANY_STREAM, ErrorCode::None);
            frame::put(output, kind::PING, 0, 0, &GOAWAY_PING);
        }
    }

    /// Checks PRIORITY. Apart from that we ignore it (RFC 9113 §5.3.2).
    pub(super) fn handle_priority(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        self.budget.charge_frame()?;
        if head.stream == 0 {
            return Err(ErrorCode::Protocol.into());
        }
        match <&[u8; 5]>::try_from(payload) {
            Err(_) => Err(Fault::Stream(head.stream, ErrorCode::FrameSize)),
            Ok(dependency) if frame::depends_on(dependency) == head.stream => {
                Err(Fault::Stream(head.stream, ErrorCode::Protocol))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Handles RST_STREAM: the peer is not interested in the response any more.
    pub(super) fn handle_reset(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSize.into());
        }
        if self.is_idle(head.stream) {
            return Err(ErrorCode::Protocol.into());
        }

        self.forget_reset(head.stream);
        // A peer may reset finished streams at any time, so we only charge for pending responses (rapid reset, CVE-2023-44487).
        let is_pending = self.streams.remove(head.stream).is_some_and(|stream| !stream.is_answered());
        Ok(if is_pending { self.budget.charge_reset() } else { self.budget.charge_frame() }?)
    }

    pub(super) fn handle_settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if head.has(flag::ACK) {
            self.budget.charge_frame()?;
            return if payload.is_empty() { Ok(()) } else { Err(ErrorCode::FrameSize.into()) };
        }

        let changes = settings::read(payload)?;
        self.budget.charge_settings(changes.parameters)?;

        // RFC 9113 §6.5.3: we need to apply values in order. The largest one must not overflow any window, even if a later one is
        // smaller.
        if let Some((largest, last)) = changes.window_bytes {
            self.streams
                .shift_windows(self.initial_window, largest)
                .and_then(|()| self.streams.shift_windows(largest, last))
                .map_err(|TooLarge| ErrorCode::FlowControl)?;
            self.initial_window = last;
        }
        if let Some((smallest, last)) = changes.table_bytes {
            self.encoder.set_size_max(smallest, last);
        }

        frame::put(output, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    /// Answers PING. An acknowledgement of our own PING completes the graceful shutdown.
    pub(super) fn handle_ping(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if payload.len() != 8 {
            return Err(ErrorCode::FrameSize.into());
        }
        self.budget.charge_frame()?;

        if !head.has(flag::ACK) {
            frame::put(output, kind::PING, flag::ACK, 0, payload);
        // The peer has seen our first GOAWAY. All requests that it sent earlier should have arrived by now.
        } else if self.goaway == Goaway::Announced && payload == GOAWAY_PING {
            self.goaway = Goaway::Final(self.last_stream);
            frame::put_goaway(output, self.last_stream, ErrorCode::None);
        }
        Ok(())
    }

    /// Checks GOAWAY, but otherwise ignores it: it only says that the peer will not accept streams from us.
    pub(super) fn handle_goaway(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if payload.len() < 8 {
            return Err(ErrorCode::FrameSize.into());
        }
        Ok(self.budget.charge_frame()?)
    }

    /// Handles WINDOW_UPDATE: enlarges the window of the connection or of a stream.
    pub(super) fn handle_window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let Ok(increment) = <[u8; 4]>::try_from(payload) else { return Err(ErrorCode::FrameSize.into()) };
        self.budget.charge_frame()?;
        let increment = frame::parse_u31(increment);
        let id = head.stream;

        if id == 0 {
            if increment == 0 {
                return Err(ErrorCode::Protocol.into());
            }
            return self.window.widen(increment).map_err(|TooLarge| ErrorCode::FlowControl.into());
        }

        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        if increment == 0 {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        match self.streams.find(id) {
            Some(stream) => {
                stream.window.widen(increment).map_err(|TooLarge| Fault::Stream(id, ErrorCode::FlowControl))
            }
            // RFC 9113 §6.9: the peer may have sent this before it knew that the stream is closed.
            None => Ok(()),
        }
    }

    /// Handles PRIORITY_UPDATE, which may even arrive before the request (RFC 9218 §7.1).
    pub(super) fn handle_priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        let (id, value) = payload.split_first_chunk().ok_or(ErrorCode::FrameSize)?;
        self.budget.charge_frame()?;
        let id = frame::parse_u31(*id);
        // This is stream 0, or a stream that could only have been opened by server push.
        if id.is_multiple_of(2) {
            return Err(ErrorCode::Protocol.into());
        }

        let priority = Priority::parse(value);

        // The stream is not open yet, so keep the priority for later. We only keep a few of them.
        if id > self.last_stream {
            self.early_priorities.retain(|(stream, _)| *stream != id);
            if self.early_priorities.len() >= PRIORITIES_REMEMBERED_MAX {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
        } else if let Some(stream) = self.streams.find(id) {
            stream.priority = priority;
        }
        Ok(())
    }

    /// Applies a priority that arrived before the last request, and forgets priorities of skipped streams.
    #[cold]
    pub(super) fn apply_early_priority(&mut self, id: u32) {
        let early = self.early_priorities.iter().find(|(stream, _)| *stream == id);
        if let (Some((_, priority)), Some(request)) = (early, &mut self.pending_request) {
            request.info.priority = *priority;
        }
        self.early_priorities.retain(|(stream, _)| *stream > id);
        if self.early_priorities.is_empty() {
            self.early_priorities = Vec::new();
        }
    }

    #[cfg(test)]
    pub(super) fn early_priorities(&self) -> usize {
        self.early_priorities.len()
    }
}
