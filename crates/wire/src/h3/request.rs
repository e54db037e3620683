//! Request streams (RFC 9114 §4.1): a field section, content, and maybe a trailer section.
//!
//! Content is passed on and never stored here.

use super::error::ErrorCode;
use super::frame::{FrameReader, Part, kind};
use crate::limits::FIELD_SECTION_BYTES_MAX;

#[derive(Debug, Default)]
pub(super) struct RequestStream {
    frames: FrameReader,
    stage: Stage,
    frame: Frame,
    /// A field section that arrives in pieces.
    section: Vec<u8>,
}

/// Request progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The field section is not complete.
    #[default]
    Head,
    /// The field section is complete. Content or trailers may follow.
    Content,
    /// The trailer section is complete. Nothing else may follow.
    Trailers,
}

/// The frame we are reading.
#[derive(Debug, Clone, Copy, Default)]
enum Frame {
    /// We do not know this frame type, so we need to skip the payload (RFC 9114 §9).
    #[default]
    Unknown,
    Data,
    Section,
    /// A field section that is too large. We skip it.
    LargeSection,
}

/// The next part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// The request's field section.
    Head(Section<'a>),
    /// Content.
    Content(&'a [u8]),
    /// The trailer section.
    Trailers(Section<'a>),
    /// A frame that means nothing to us, either because its type is unknown or because it is empty.
    Ignored,
}

/// A field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section<'a> {
    /// A QPACK-encoded section.
    Whole(&'a [u8]),
    /// A section beyond our limit. It will not be decoded, and the request will be refused.
    TooLarge,
}

impl RequestStream {
    /// Consumes frames from the front of `input` up to the next event. At the end of `input`, returns `None`.
    ///
    /// If a field section arrives in one piece, it is not copied.
    ///
    /// # Errors
    ///
    /// The connection must be closed with the code.
    pub(super) fn next<'e, 'b: 'e>(
        &'e mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<Event<'e>>, ErrorCode> {
        // Most requests are a single frame that arrives in one piece.
        if self.stage == Stage::Head
            && let Some(section) = self.frames.next_whole(kind::HEADERS, FIELD_SECTION_BYTES_MAX, input)
        {
            return Ok(Some(self.stage.end_section(Section::Whole(section))));
        }

        loop {
            match self.frames.next(input) {
                Part::Incomplete => return Ok(None),
                Part::Head { kind, length } => self.frame = self.begin(kind, length)?,
                Part::Payload { bytes, is_last } => match self.frame {
                    // Skip frames of unknown types, but report them, since their number is limited.
                    Frame::Unknown if is_last => return Ok(Some(Event::Ignored)),
                    Frame::Data if bytes.is_empty() => return Ok(Some(Event::Ignored)),
                    Frame::Data => return Ok(Some(Event::Content(bytes))),

                    // The common case: the whole section is in `input`.
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

    /// Returns `true` once the field section is complete.
    pub(super) fn has_head(&self) -> bool {
        self.stage != Stage::Head
    }

    pub(super) fn memory(&self) -> usize {
        self.section.capacity()
    }

    /// Checks if the stream may end here.
    ///
    /// # Errors
    ///
    /// The stream ends within a frame, or before the field section.
    pub(super) fn end(&self) -> Result<(), EndError> {
        if !self.frames.is_between_frames() {
            Err(EndError::Connection(ErrorCode::Frame))
        } else if self.stage == Stage::Head {
            Err(EndError::Stream(ErrorCode::RequestIncomplete))
        } else {
            Ok(())
        }
    }

    /// Decides what to do with a frame, by its type and length.
    fn begin(&mut self, kind: u64, length: u64) -> Result<Frame, ErrorCode> {
        self.section = Vec::new();

        match (kind, self.stage) {
            (kind::HEADERS, Stage::Head | Stage::Content) if length > FIELD_SECTION_BYTES_MAX => {
                Ok(Frame::LargeSection)
            }

            (kind::HEADERS, Stage::Head | Stage::Content) => Ok(Frame::Section),
            (kind::DATA, Stage::Content) => Ok(Frame::Data),

            // These frames are never allowed on a request stream, or at least not at this point.
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
    /// Returns the event for a field section and advances to the next stage.
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

/// Reasons why a stream must not end here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndError {
    /// The connection must be closed.
    Connection(ErrorCode),
    /// The stream must be reset.
    Stream(ErrorCode),
}

#[cfg(test)]
mod tests;
