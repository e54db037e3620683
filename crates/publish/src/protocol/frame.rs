//! Frames, and their reading and writing.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{PROTOCOL, PROTOCOL_OLDEST};
use crate::limits::{DATA_BYTES, FRAME_BYTES_MAX};

/// The kind of a frame. Its number is a letter, so that text from another program is noticed at the first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table of the protocol explains them")]
pub enum FrameKind {
    Hello = b'C' as isize,
    List = b'l' as isize,
    Releases = b'r' as isize,
    Fetch = b'f' as isize,
    Offer = b'o' as isize,
    Known = b'k' as isize,
    Missing = b'm' as isize,
    Baseless = b'b' as isize,
    Staged = b's' as isize,
    Activate = b'a' as isize,
    Activated = b'A' as isize,
    Preview = b'p' as isize,
    Remove = b'd' as isize,
    Removed = b'D' as isize,
    Refused = b'!' as isize,
    Data = b'.' as isize,
    End = b';' as isize,
}

impl FrameKind {
    const ALL: [FrameKind; 17] = [
        FrameKind::Hello,
        FrameKind::List,
        FrameKind::Releases,
        FrameKind::Fetch,
        FrameKind::Offer,
        FrameKind::Known,
        FrameKind::Missing,
        FrameKind::Baseless,
        FrameKind::Staged,
        FrameKind::Activate,
        FrameKind::Activated,
        FrameKind::Preview,
        FrameKind::Remove,
        FrameKind::Removed,
        FrameKind::Refused,
        FrameKind::Data,
        FrameKind::End,
    ];

    fn from_letter(letter: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| kind.letter() == letter)
    }

    fn letter(self) -> u8 {
        u8::try_from(self as isize).unwrap_or(0)
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Why no frame can be read, or why a frame makes no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The pipe cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The pipe was closed between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The pipe was closed inside a frame.
    #[error("the connection was cut")]
    Cut,
    /// The bytes that arrived aren't a frame.
    #[error("something other than a frame arrived: {0:?}")]
    Foreign(String),
    /// The payload is too long.
    #[error("a frame of {0} bytes arrived, and {FRAME_BYTES_MAX} are allowed")]
    TooLong(u32),
    /// The frame can't come at this point.
    #[error("a frame {got:?} arrived instead of {expected}")]
    Unexpected {
        /// The frames that can come.
        expected: &'static str,
        /// The frame that came.
        got: FrameKind,
    },
    /// The payload isn't what the kind promises.
    #[error("the content of a frame {kind:?} is malformed: {reason}")]
    Payload {
        /// The kind of the frame.
        kind: FrameKind,
        /// The mistake.
        reason: String,
    },
    /// The two sides have no version of the protocol in common.
    #[error(
        "Cannery {program} on the other side speaks version {oldest} to {newest} of the protocol, and Cannery {} here speaks version \
         {PROTOCOL_OLDEST} to {PROTOCOL}",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The version of its program.
        program: String,
        /// The oldest version of the protocol that it speaks.
        oldest: u32,
        /// The newest one.
        newest: u32,
    },
    /// A stream is longer than its limit.
    #[error("a stream is longer than {0} bytes")]
    StreamTooLong(usize),
}

impl Frame {
    /// Returns a frame with a JSON payload.
    ///
    /// # Panics
    /// Panics if the message has no JSON, which is a mistake in its type.
    #[must_use]
    pub fn json(kind: FrameKind, message: &impl Serialize) -> Frame {
        Frame { kind, payload: serde_json::to_vec(message).expect("messages have string keys") }
    }

    /// Returns a frame without payload.
    #[must_use]
    pub fn empty(kind: FrameKind) -> Frame {
        Frame { kind, payload: Vec::new() }
    }

    /// Parses a JSON payload.
    ///
    /// # Errors
    /// Returns [`FrameError::Payload`] if it isn't such a message.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| FrameError::Payload { kind: self.kind, reason: error.to_string() })
    }

    /// Returns the error for a frame that can't come at this point.
    #[must_use]
    pub fn unexpected(&self, expected: &'static str) -> FrameError {
        FrameError::Unexpected { expected, got: self.kind }
    }
}

/// Reads a frame.
///
/// # Errors
/// Returns [`FrameError`] if there is none. The payload is only allocated as it arrives.
pub fn read_frame(input: &mut dyn Read) -> Result<Frame, FrameError> {
    let mut head = [0; 5];
    let count = read_most(input, &mut head)?;
    if count == 0 {
        return Err(FrameError::Closed);
    }
    let Some(kind) = FrameKind::from_letter(head[0]) else {
        return Err(FrameError::Foreign(String::from_utf8_lossy(&head[..count]).into_owned()));
    };
    if count < head.len() {
        return Err(FrameError::Cut);
    }

    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    if u64::from(length) > FRAME_BYTES_MAX as u64 {
        // A word that starts with one of our letters, for example.
        let is_text = head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        return Err(if is_text {
            FrameError::Foreign(String::from_utf8_lossy(&head).into_owned())
        } else {
            FrameError::TooLong(length)
        });
    }
    let mut payload = Vec::new();
    input.take(length.into()).read_to_end(&mut payload)?;
    if payload.len() as u64 == u64::from(length) { Ok(Frame { kind, payload }) } else { Err(FrameError::Cut) }
}

/// Reads until the buffer is full or the input ends. Returns the number of bytes read.
fn read_most(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match input.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Writes a frame. Its payload must not be longer than [`FRAME_BYTES_MAX`].
///
/// # Errors
/// Returns the error of the pipe.
pub fn write_frame(output: &mut dyn Write, frame: &Frame) -> io::Result<()> {
    write_parts(output, frame.kind, &frame.payload)
}

fn write_parts(output: &mut dyn Write, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a frame is too long"))?;
    let [a, b, c, d] = length.to_le_bytes();
    output.write_all(&[kind.letter(), a, b, c, d])?;
    output.write_all(payload)
}

/// Writes bytes as data frames, without the frame that ends the stream. After each frame, `progress` gets its length.
///
/// # Errors
/// Returns the error of the pipe.
pub fn write_stream(output: &mut dyn Write, bytes: &[u8], progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    for chunk in bytes.chunks(DATA_BYTES) {
        write_parts(output, FrameKind::Data, chunk)?;
        progress(chunk.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_written() {
        for kind in FrameKind::ALL {
            for payload in [b"".to_vec(), b"{}".to_vec(), vec![7; FRAME_BYTES_MAX]] {
                let frame = Frame { kind, payload };
                let mut pipe = Vec::new();
                write_frame(&mut pipe, &frame).unwrap();
                let mut input = pipe.as_slice();
                assert_eq!(read_frame(&mut input).unwrap(), frame);
                assert!(matches!(read_frame(&mut input), Err(FrameError::Closed)));
            }
        }
    }

    #[test]
    fn cut_frames_are_noticed() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &Frame { kind: FrameKind::Data, payload: vec![1; 20] }).unwrap();
        for end in 1..pipe.len() {
            assert!(matches!(read_frame(&mut &pipe[..end]), Err(FrameError::Cut)), "{end}");
        }
    }

    #[test]
    fn text_of_a_shell_is_named() {
        for text in ["Welcome to Debian\n", "Connected\n", "hi", "last login: today"] {
            let Err(FrameError::Foreign(start)) = read_frame(&mut text.as_bytes()) else { panic!("{text}") };
            assert!(text.starts_with(&start), "{start}");
        }
    }

    #[test]
    fn claimed_length_is_not_allocated() {
        let frame = [b'.', 0xff, 0xff, 0xff, 0xff];
        assert!(matches!(read_frame(&mut frame.as_slice()), Err(FrameError::TooLong(u32::MAX))));
        assert!(
            write_frame(
                &mut Vec::new(),
                &Frame { kind: FrameKind::Data, payload: vec![0; FRAME_BYTES_MAX + 1] }
            )
            .is_err()
        );
    }
}
