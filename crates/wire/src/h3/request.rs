//! A request stream (RFC 9114 §4.1): a field section, content, and a trailer section.
//!
//! Content is passed on, and not stored here.

use super::error::ErrorCode;
use super::frame::{FrameReader, Part, kind};
use crate::limits::FIELD_SECTION_BYTES_MAX;

/// Reads a request stream.
#[derive(Debug, Default)]
pub(super) struct RequestStream {
    frames: FrameReader,
    stage: Stage,
    frame: Frame,
    /// A field section that arrived in pieces.
    section: Vec<u8>,
}

/// Progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Before the end of its field section.
    #[default]
    Head,
    /// Before the end of its content.
    Content,
    /// After its trailer section.
    Trailers,
}

/// The frame that is being read.
#[derive(Debug, Clone, Copy, Default)]
enum Frame {
    /// Of a type that is not known, so its payload is skipped (RFC 9114 §9).
    #[default]
    Unknown,
    Data,
    Section,
    /// A field section that is too large. Its payload is skipped.
    LargeSection,
}

/// The next part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// The field section of the request.
    Head(Section<'a>),
    /// Content.
    Content(&'a [u8]),
    /// The trailer section.
    Trailers(Section<'a>),
    /// A frame without effect: of an unknown type, or without content.
    Ignored,
}

/// A field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section<'a> {
    /// Encoded by QPACK.
    Whole(&'a [u8]),
    /// Larger than the limit. It is not decoded, and the request is refused.
    TooLarge,
}

impl RequestStream {
    /// Removes frames from the front of `input`, up to the next event. Returns `None` at the end of `input`.
    ///
    /// A field section that `input` holds as a whole is not copied.
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error.
    pub(super) fn next<'e, 'b: 'e>(
        &'e mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<Event<'e>>, ErrorCode> {
        loop {
            match self.frames.next(input) {
                Part::Incomplete => return Ok(None),
                Part::Head { kind, length } => self.frame = self.begin(kind, length)?,
                Part::Payload { bytes, is_last } => match self.frame {
                    Frame::Unknown if is_last => return Ok(Some(Event::Ignored)),
                    Frame::Data if bytes.is_empty() => return Ok(Some(Event::Ignored)),
                    Frame::Data => return Ok(Some(Event::Content(bytes))),
                    Frame::Section if is_last && self.section.is_empty() => {
                        return Ok(Some(self.stage.end_section(Section::Whole(bytes))));
                    }
                    Frame::Section => {
                        self.section.extend_from_slice(bytes);
                        if is_last {
                            return Ok(Some(self.stage.end_section(Section::Whole(&self.section))));
                        }
                    }
                    Frame::LargeSection if is_last => {
                        return Ok(Some(self.stage.end_section(Section::TooLarge)));
                    }
                    Frame::Unknown | Frame::LargeSection => {}
                },
            }
        }
    }

    /// Returns `true` if the field section was read.
    pub(super) fn has_head(&self) -> bool {
        self.stage != Stage::Head
    }

    /// Returns the memory that a partial field section takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.section.capacity()
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    ///
    /// Returns an error if it ends within a frame, or before the field section.
    pub(super) fn end(&self) -> Result<(), EndError> {
        if !self.frames.is_between_frames() {
            Err(EndError::Connection(ErrorCode::Frame))
        } else if self.stage == Stage::Head {
            Err(EndError::Stream(ErrorCode::RequestIncomplete))
        } else {
            Ok(())
        }
    }

    /// Checks a frame by its head.
    fn begin(&mut self, kind: u64, length: u64) -> Result<Frame, ErrorCode> {
        self.section = Vec::new();
        match (kind, self.stage) {
            (kind::HEADERS, Stage::Head | Stage::Content) if length > FIELD_SECTION_BYTES_MAX => {
                Ok(Frame::LargeSection)
            }
            (kind::HEADERS, Stage::Head | Stage::Content) => Ok(Frame::Section),
            (kind::DATA, Stage::Content) => Ok(Frame::Data),
            (
                kind::HEADERS
                | kind::DATA
                | kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_PUSH,
                _,
            ) => Err(ErrorCode::FrameUnexpected),
            _ if kind::is_forbidden(kind) => Err(ErrorCode::FrameUnexpected),
            _ => Ok(Frame::Unknown),
        }
    }
}

impl Stage {
    /// Returns the event for a field section, which ends this stage.
    fn end_section<'a>(&mut self, section: Section<'a>) -> Event<'a> {
        match self {
            Stage::Head => {
                *self = Stage::Content;
                Event::Head(section)
            }
            Stage::Content | Stage::Trailers => {
                *self = Stage::Trailers;
                Event::Trailers(section)
            }
        }
    }
}

/// Why a stream may not end yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndError {
    /// The connection must be closed.
    Connection(ErrorCode),
    /// The stream must be reset.
    Stream(ErrorCode),
}

#[cfg(test)]
mod tests;
