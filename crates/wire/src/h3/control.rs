//! The peer's control stream (RFC 9114 §6.2.1): settings and request priorities.

use super::error::ErrorCode;
use super::frame::{FrameReader, Part, kind};
use super::settings::{self, PeerSettings};
use super::stream_id::StreamId;
use super::varint;
use crate::limits::CONTROL_FRAME_BYTES_MAX;
use crate::request::priority::Priority;

/// Reads a client's control stream.
#[derive(Debug, Default)]
pub(super) struct ControlStream {
    frames: FrameReader,
    /// The frame we are reading.
    frame: Frame,
    has_settings: bool,
    /// Push ID in the last GOAWAY, which must not increase (RFC 9114 §5.2).
    last_goaway: Option<u64>,
    /// The last MAX_PUSH_ID. It must not decrease (RFC 9114 §7.2.7).
    max_push_id: Option<u64>,
}

#[derive(Debug, Default)]
enum Frame {
    /// We do not know this frame type, so we need to skip the payload (RFC 9114 §9).
    #[default]
    Unknown,
    /// A frame with the payload received so far.
    Known { kind: u64, payload: Vec<u8> },
}

/// A message on the control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The peer's settings. They always come first.
    Settings(PeerSettings),
    /// A request's priority (RFC 9218 §7.2). Note that the request might not have arrived yet.
    Priority {
        /// Request stream.
        stream: StreamId,
        /// The new priority.
        priority: Priority,
    },
    /// Another frame, which we ignore.
    Other,
}

impl ControlStream {
    pub(super) fn memory(&self) -> usize {
        match &self.frame {
            Frame::Unknown => 0,
            Frame::Known { payload, .. } => payload.capacity(),
        }
    }

    /// Consumes frames from the front of `input` until one is complete. At the end of `input`, returns
    /// `None`.
    ///
    /// # Errors
    ///
    /// The connection must be closed with the code.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Notice>, ErrorCode> {
        loop {
            match self.frames.next(input) {
                Part::Incomplete => return Ok(None),
                Part::Head { kind, length } => self.frame = self.begin(kind, length)?,
                Part::Payload { bytes, is_last } => {
                    if let Frame::Known { payload, .. } = &mut self.frame {
                        payload.extend_from_slice(bytes);
                    }
                    if is_last {
                        return self.end().map(Some);
                    }
                }
            }
        }
    }

    /// Decides what to do with a frame, by its type and length.
    fn begin(&self, kind: u64, length: u64) -> Result<Frame, ErrorCode> {
        match kind {
            kind::SETTINGS if self.has_settings => Err(ErrorCode::FrameUnexpected),
            _ if kind != kind::SETTINGS && !self.has_settings => Err(ErrorCode::MissingSettings),
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => Err(ErrorCode::FrameUnexpected),
            _ if kind::is_forbidden(kind) => Err(ErrorCode::FrameUnexpected),
            kind::SETTINGS
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::CANCEL_PUSH
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {
                if length > CONTROL_FRAME_BYTES_MAX {
                    return Err(ErrorCode::ExcessiveLoad);
                }
                Ok(Frame::Known { kind, payload: Vec::new() })
            }
            _ => Ok(Frame::Unknown),
        }
    }

    fn end(&mut self) -> Result<Notice, ErrorCode> {
        let Frame::Known { kind, payload } = std::mem::take(&mut self.frame) else {
            return Ok(Notice::Other);
        };

        match kind {
            kind::SETTINGS => {
                self.has_settings = true;
                return settings::read(&payload).map(Notice::Settings);
            }
            kind::GOAWAY => {
                // RFC 9114 §5.2: IDs MUST NOT increase. Apart from this, there is nothing to do, since we
                // never push.
                let push_id = single_integer(&payload)?;
                if self.last_goaway.is_some_and(|last| push_id > last) {
                    return Err(ErrorCode::Id);
                }
                self.last_goaway = Some(push_id);
            }
            kind::MAX_PUSH_ID => {
                let push_id = single_integer(&payload)?;
                if self.max_push_id.is_some_and(|max| push_id < max) {
                    return Err(ErrorCode::Id);
                }
                self.max_push_id = Some(push_id);
            }
            // RFC 9114 §7.2.3, RFC 9218 §7.2: since we never push, every push ID is an error.
            kind::CANCEL_PUSH => {
                single_integer(&payload)?;
                return Err(ErrorCode::Id);
            }
            kind::PRIORITY_UPDATE_PUSH => return Err(ErrorCode::Id),
            kind::PRIORITY_UPDATE => {
                let (number, value) = varint::read(&payload).ok_or(ErrorCode::Frame)?;
                let stream = StreamId::new(number);
                if !stream.is_request() {
                    return Err(ErrorCode::Id);
                }
                return Ok(Notice::Priority { stream, priority: Priority::parse(value) });
            }
            _ => {}
        }
        Ok(Notice::Other)
    }
}

fn single_integer(payload: &[u8]) -> Result<u64, ErrorCode> {
    match varint::read(payload) {
        Some((number, [])) => Ok(number),
        _ => Err(ErrorCode::Frame),
    }
}

#[cfg(test)]
mod tests;
