//! What the frames do that carry no request (RFC 9113 §6.3 to §6.9, RFC 9218 §7.1): settings, windows, resets, pings,
//! priorities, and the end in good order.
//!
//! Never answers a request. Each frame that asks for nothing is paid for.

use super::connection::{Connection, Going, Stage};
use super::error::{ErrorCode, Fault};
use super::frame::{self, FrameHead, flag, kind};
use super::priority::Priority;
use super::settings;
use crate::limits::PRIORITIES_REMEMBERED_MAX;
use crate::output::Output;

/// What our PING says that asks whether the peer knows that we go.
const GOING_PING: [u8; 8] = *b"cannery!";

impl Connection {
    /// Lets the connection end gracefully (RFC 9113 §6.8): the peer is told, and what it asked before it knew is still
    /// answered. See [`Connection::has_ended`].
    pub fn go_away(&mut self, output: &mut Output) {
        if self.going == Going::No && self.stage != Stage::Ended {
            self.going = Going::Announced;
            frame::put_go_away(output, 0x7fff_ffff, ErrorCode::None);
            frame::put(output, kind::PING, 0, 0, &GOING_PING);
        }
    }

    /// RFC 9113 §5.3.2: read, and ignored.
    pub(super) fn take_priority(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        self.budget.frame()?;
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

    pub(super) fn take_reset(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSize.into());
        }
        if self.is_idle(head.stream) {
            return Err(ErrorCode::Protocol.into());
        }
        self.end_cut_off(head.stream);
        let body = self.streams.remove(head.stream).and_then(|stream| stream.body);
        Ok(if body.is_some() { self.budget.reset() } else { self.budget.frame() }?)
    }

    pub(super) fn take_settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if head.has(flag::ACK) {
            self.budget.frame()?;
            return if payload.is_empty() { Ok(()) } else { Err(ErrorCode::FrameSize.into()) };
        }
        let changes = settings::read(payload)?;
        self.budget.settings(changes.parameters)?;
        if let Some((largest, last)) = changes.window_bytes {
            let before = self.stream_window;
            let shifted = self.streams.shift_windows(before, largest);
            shifted
                .and_then(|()| self.streams.shift_windows(largest, last))
                .map_err(|_| ErrorCode::FlowControl)?;
            self.stream_window = last;
        }
        if let Some((least, last)) = changes.table_bytes {
            self.encoder.set_size_max(least, last);
        }
        frame::put(output, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    pub(super) fn take_ping(
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
        self.budget.frame()?;
        if !head.has(flag::ACK) {
            frame::put(output, kind::PING, flag::ACK, 0, payload);
        } else if self.going == Going::Announced && payload == GOING_PING {
            self.going = Going::Gone(self.last);
            frame::put_go_away(output, self.last, ErrorCode::None);
        }
        Ok(())
    }

    /// The peer will open no more streams, and is not held to it.
    pub(super) fn take_go_away(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if payload.len() < 8 {
            return Err(ErrorCode::FrameSize.into());
        }
        Ok(self.budget.frame()?)
    }

    pub(super) fn take_window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let Ok(increment) = <[u8; 4]>::try_from(payload) else { return Err(ErrorCode::FrameSize.into()) };
        self.budget.frame()?;
        let increment = frame::stream_number(increment);
        let id = head.stream;
        if id == 0 {
            if increment == 0 {
                return Err(ErrorCode::Protocol.into());
            }
            return self.window.widen(increment).map_err(|_| ErrorCode::FlowControl.into());
        }
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        if increment == 0 {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        match self.streams.find(id) {
            Some(stream) => {
                stream.window.widen(increment).map_err(|_| Fault::Stream(id, ErrorCode::FlowControl))
            }
            // RFC 9113 §6.9: it may have been under way when the stream ended.
            _ => Ok(()),
        }
    }

    /// RFC 9218 §7.1.
    pub(super) fn take_priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol.into());
        }
        let (id, value) = payload.split_first_chunk().ok_or(ErrorCode::FrameSize)?;
        self.budget.frame()?;
        let id = frame::stream_number(*id);
        // Not a stream of the client's: none, or one that we would have to have promised.
        if id.is_multiple_of(2) {
            return Err(ErrorCode::Protocol.into());
        }
        let priority = Priority::parse(value);
        if id > self.last {
            self.priorities.retain(|(stream, _)| *stream != id);
            if self.priorities.len() >= PRIORITIES_REMEMBERED_MAX {
                self.priorities.remove(0);
            }
            self.priorities.push((id, priority));
        } else if let Some(stream) = self.streams.find(id) {
            stream.priority = priority;
        }
        Ok(())
    }

    /// Gives the request that came last the priority that was told ahead, and forgets what came to nothing.
    #[cold]
    pub(super) fn take_early_priority(&mut self, id: u32) {
        let told = self.priorities.iter().find(|(stream, _)| *stream == id);
        if let (Some((_, priority)), Some(asked)) = (told, &mut self.asked) {
            asked.about.priority = *priority;
        }
        self.priorities.retain(|(stream, _)| *stream > id);
        if self.priorities.is_empty() {
            self.priorities = Vec::new();
        }
    }

    #[cfg(test)]
    pub(super) fn priorities_remembered(&self) -> usize {
        self.priorities.len()
    }
}
