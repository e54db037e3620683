//! A request stream (RFC 9114 §4.1): a field section, content, and a trailer section.
//!
//! Content is counted and not stored.

use super::error::ErrorCode;
use super::frame::{FrameReader, Part, kind};
use crate::limits::FIELD_SECTION_BYTES_MAX;

/// Reads a request stream.
#[derive(Debug, Default)]
pub struct RequestStream {
    frames: FrameReader,
    stage: Stage,
    frame: Frame,
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
#[derive(Debug, Default)]
enum Frame {
    /// Of a type that is not known, so its payload is skipped (RFC 9114 §9).
    #[default]
    Unknown,
    Data,
    /// A field section, with the payload so far.
    Section(Vec<u8>),
    /// A field section that is too large. Its payload is skipped.
    LargeSection,
}

/// The next part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The field section of the request, encoded by QPACK.
    Head(Section),
    /// Content of this number of bytes.
    Content(usize),
    /// The trailer section, encoded by QPACK.
    Trailers(Section),
}

/// A field section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// Encoded by QPACK.
    Whole(Vec<u8>),
    /// Larger than the limit. It is not decoded, and the request is refused.
    TooLarge,
}

impl RequestStream {
    /// Removes frames from the front of `input`, up to the next event. Returns `None` at the end of `input`.
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, ErrorCode> {
        loop {
            match self.frames.next(input) {
                Part::Incomplete => return Ok(None),
                Part::Head { kind, length } => self.frame = self.begin(kind, length)?,
                Part::Payload { bytes, is_last } => match &mut self.frame {
                    Frame::Unknown => {}
                    Frame::Data if bytes.is_empty() => {}
                    Frame::Data => return Ok(Some(Event::Content(bytes.len()))),
                    Frame::Section(payload) => {
                        payload.extend_from_slice(bytes);
                        if is_last {
                            let section = Section::Whole(std::mem::take(payload));
                            return Ok(Some(self.end_section(section)));
                        }
                    }
                    Frame::LargeSection if is_last => {
                        return Ok(Some(self.end_section(Section::TooLarge)));
                    }
                    Frame::LargeSection => {}
                },
            }
        }
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    ///
    /// Returns an error if it ends within a frame, or before the field section.
    pub fn end(&self) -> Result<(), EndError> {
        if !self.frames.is_between_frames() {
            Err(EndError::Connection(ErrorCode::Frame))
        } else if self.stage == Stage::Head {
            Err(EndError::Stream(ErrorCode::RequestIncomplete))
        } else {
            Ok(())
        }
    }

    /// Checks a frame by its head.
    fn begin(&self, kind: u64, length: u64) -> Result<Frame, ErrorCode> {
        match (kind, self.stage) {
            (kind::HEADERS, Stage::Head | Stage::Content) if length > FIELD_SECTION_BYTES_MAX => {
                Ok(Frame::LargeSection)
            }
            (kind::HEADERS, Stage::Head | Stage::Content) => Ok(Frame::Section(Vec::new())),
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

    fn end_section(&mut self, section: Section) -> Event {
        match self.stage {
            Stage::Head => {
                self.stage = Stage::Content;
                Event::Head(section)
            }
            Stage::Content | Stage::Trailers => {
                self.stage = Stage::Trailers;
                Event::Trailers(section)
            }
        }
    }
}

/// Why a stream may not end yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndError {
    /// The connection must be closed.
    Connection(ErrorCode),
    /// The stream must be reset.
    Stream(ErrorCode),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::frame::put_head;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_head(&mut bytes, kind, payload.len() as u64);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn whole(bytes: &[u8]) -> Section {
        Section::Whole(bytes.to_vec())
    }

    /// Reads a whole stream that arrives in pieces of this length. Contents are joined.
    fn read(bytes: &[u8], piece: usize) -> Result<(Vec<Event>, RequestStream), ErrorCode> {
        let mut stream = RequestStream::default();
        let mut events: Vec<Event> = Vec::new();
        for mut input in bytes.chunks(piece) {
            while let Some(event) = stream.next(&mut input)? {
                match (events.last_mut(), event) {
                    (Some(Event::Content(before)), Event::Content(more)) => *before += more,
                    (_, event) => events.push(event),
                }
            }
        }
        Ok((events, stream))
    }

    #[test]
    fn a_request_has_a_head_content_and_trailers() {
        let bytes = [
            frame(0x21, b"grease"),
            frame(kind::HEADERS, b"head"),
            frame(kind::DATA, b"ab"),
            frame(kind::DATA, b""),
            frame(0x40, b""),
            frame(kind::DATA, b"c"),
            frame(kind::HEADERS, b"trailers"),
            frame(0x21, b""),
        ]
        .concat();
        for piece in 1..bytes.len() {
            let (events, stream) = read(&bytes, piece).unwrap();
            let expected =
                [Event::Head(whole(b"head")), Event::Content(3), Event::Trailers(whole(b"trailers"))];
            assert_eq!(events, expected, "{piece}");
            assert_eq!(stream.end(), Ok(()));
        }
    }

    #[test]
    fn frames_out_of_order_are_connection_errors() {
        let head = frame(kind::HEADERS, b"head");
        for frames in [
            vec![frame(kind::DATA, b"")],
            vec![head.clone(), head.clone(), head.clone()],
            vec![head.clone(), head.clone(), frame(kind::DATA, b"")],
            vec![head.clone(), frame(kind::SETTINGS, b"")],
            vec![head.clone(), frame(kind::GOAWAY, b"\0")],
            vec![head.clone(), frame(kind::MAX_PUSH_ID, b"\0")],
            vec![head.clone(), frame(kind::CANCEL_PUSH, b"\0")],
            vec![head.clone(), frame(kind::PUSH_PROMISE, b"\0")],
            vec![head.clone(), frame(kind::PRIORITY_UPDATE, b"\0")],
            vec![frame(0x2, b"")],
            vec![frame(0x6, b"")],
            vec![frame(0x8, b"")],
            vec![head, frame(0x9, b"")],
        ] {
            assert_eq!(read(&frames.concat(), 1000).err(), Some(ErrorCode::FrameUnexpected), "{frames:?}");
        }
    }

    #[test]
    fn a_stream_ends_after_its_request() {
        let end = |bytes: &[u8]| read(bytes, 1000).unwrap().1.end();
        assert_eq!(end(b""), Err(EndError::Stream(ErrorCode::RequestIncomplete)));
        assert_eq!(end(&frame(0x21, b"")), Err(EndError::Stream(ErrorCode::RequestIncomplete)));
        let head = frame(kind::HEADERS, b"head");
        assert_eq!(end(&head[..3]), Err(EndError::Connection(ErrorCode::Frame)));
        assert_eq!(end(&head[..1]), Err(EndError::Connection(ErrorCode::Frame)));
        assert_eq!(end(&head), Ok(()));
    }

    #[test]
    fn large_sections_are_skipped() {
        let length = usize::try_from(FIELD_SECTION_BYTES_MAX).unwrap();
        for (length, section) in [(length, whole(&vec![0; length])), (length + 1, Section::TooLarge)] {
            let (events, _) = read(&frame(kind::HEADERS, &vec![0; length]), 1000).unwrap();
            assert_eq!(events, [Event::Head(section)]);
        }
    }
}
