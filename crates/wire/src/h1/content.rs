//! Reads request content, if only to find the next request. We discard it unless a handler needs it.
//!
//! Content must *never* be parsed as a request (request smuggling). If it violates the grammar of RFC 9112
//! §7.1 or is too long to be worth reading, the connection closes.

use super::parse::Framing;
use crate::ground::grammar::{is_token_byte, is_value_byte};
use crate::limits::CHUNK_LINE_BYTES_MAX;

/// Request content that has not arrived yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// All of it has arrived.
    #[default]
    Done,
    /// This number of bytes is missing.
    Length(u64),
    /// Chunked content, along with the number of bytes it may still take (including chunk heads).
    Chunked(Chunked, u64),
}

/// Position within the chunked transfer coding (RFC 9112 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunked {
    /// Within a chunk size, after `digits` digits.
    Size { size: u64, digits: u8 },
    /// Within the chunk extensions, after `bytes` bytes.
    Extension { size: u64, bytes: u16 },
    /// After the CR of the line with the chunk's size.
    SizeEnd { size: u64 },
    /// Within chunk data. This number of bytes is missing.
    Data(u64),
    /// After a chunk's data.
    DataEnd,
    /// After the CR that follows a chunk's data.
    DataLineEnd,
    /// Within a trailer field name (RFC 9112 §7.1.2), after `bytes` bytes. This is 0 at the start of a line.
    TrailerName { bytes: u16 },
    /// Within a trailer field value, after `bytes` bytes of the line.
    TrailerValue { bytes: u16 },
    /// After the CR of a trailer line.
    TrailerEnd { was_empty: bool },
}

/// The content is invalid or too long, so we cannot find its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

impl Content {
    /// Returns the state at the start of the content, or `None` if it's longer than `bytes_max`.
    pub(super) fn new(framing: Framing, bytes_max: u64) -> Option<Content> {
        match framing {
            Framing::Length(0) => Some(Content::Done),
            Framing::Length(length) => Some(Content::Length(length)).filter(|_| length <= bytes_max),
            Framing::Chunked => Some(Content::Chunked(Chunked::Size { size: 0, digits: 0 }, bytes_max)),
        }
    }

    /// Limits the rest. Returns `None` if it is longer than `bytes_max`.
    pub(super) fn limited(self, bytes_max: u64) -> Option<Content> {
        match self {
            Content::Done => Some(Content::Done),
            Content::Length(left) => Some(self).filter(|_| left <= bytes_max),
            Content::Chunked(state, left) => Some(Content::Chunked(state, left.min(bytes_max))),
        }
    }

    pub(super) fn is_done(self) -> bool {
        self == Content::Done
    }

    /// Discards content from the front of `input` and returns the number of bytes consumed. This will be all
    /// of `input` unless the content ends within it.
    pub(super) fn skip(&mut self, input: &[u8]) -> Result<usize, Unreadable> {
        self.read(input, |_| {})
    }

    /// Passes content from the front of `input` to `take`, without chunk heads, and returns the number of
    /// bytes consumed. This will be all of `input` unless the content ends within it.
    pub(super) fn read(&mut self, input: &[u8], mut take: impl FnMut(&[u8])) -> Result<usize, Unreadable> {
        match self {
            Content::Done => Ok(0),
            Content::Length(left) => {
                let bytes = available(input, *left);
                take(&input[..bytes]);
                *left -= bytes as u64;
                if *left == 0 {
                    *self = Content::Done;
                }
                Ok(bytes)
            }
            Content::Chunked(state, left) => {
                let mut at = 0;
                while let Some(step) = state.step(&input[at..])? {
                    if let Chunked::Data(_) = state {
                        take(&input[at..at + step.bytes]);
                    }

                    at += step.bytes;
                    *left = left.checked_sub(step.bytes as u64).ok_or(Unreadable)?;

                    match step.next {
                        Some(next) => *state = next,
                        None => {
                            *self = Content::Done;
                            break;
                        }
                    }
                }
                Ok(at)
            }
        }
    }
}

/// A step through the chunked coding.
struct Step {
    /// Number of input bytes consumed.
    bytes: usize,
    /// The next state, or `None` at the end of the content.
    next: Option<Chunked>,
}

impl Chunked {
    /// Returns the next step, or `None` if `input` is empty.
    fn step(self, input: &[u8]) -> Result<Option<Step>, Unreadable> {
        let Some(first) = input.first().copied() else { return Ok(None) };
        let one = |next| Ok(Some(Step { bytes: 1, next: Some(next) }));

        match self {
            Chunked::Size { size, digits } => match (char::from(first).to_digit(16), first) {
                // Sixteen digits fit into 64 bits.
                (Some(digit), _) if digits < 16 => {
                    one(Chunked::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
                }
                (None, b';') if digits > 0 => one(Chunked::Extension { size, bytes: 0 }),
                (None, b'\r') if digits > 0 => one(Chunked::SizeEnd { size }),
                _ => Err(Unreadable),
            },
            Chunked::Extension { size, bytes } => match first {
                b'\r' => one(Chunked::SizeEnd { size }),
                byte if is_value_byte(byte) && bytes < CHUNK_LINE_BYTES_MAX => {
                    one(Chunked::Extension { size, bytes: bytes + 1 })
                }
                _ => Err(Unreadable),
            },
            Chunked::SizeEnd { size: 0 } => after(first, Chunked::TrailerName { bytes: 0 }),
            Chunked::SizeEnd { size } => after(first, Chunked::Data(size)),
            Chunked::Data(left) => {
                let bytes = available(input, left);
                let next = match left - bytes as u64 {
                    0 => Chunked::DataEnd,
                    left => Chunked::Data(left),
                };
                Ok(Some(Step { bytes, next: Some(next) }))
            }
            Chunked::DataEnd if first == b'\r' => one(Chunked::DataLineEnd),
            Chunked::DataEnd => Err(Unreadable),
            Chunked::DataLineEnd => after(first, Chunked::Size { size: 0, digits: 0 }),
            Chunked::TrailerName { bytes: 0 } if first == b'\r' => {
                one(Chunked::TrailerEnd { was_empty: true })
            }
            Chunked::TrailerName { bytes: bytes @ 1.. } if first == b':' => {
                one(Chunked::TrailerValue { bytes })
            }
            Chunked::TrailerName { bytes } if is_token_byte(first) && bytes < CHUNK_LINE_BYTES_MAX => {
                one(Chunked::TrailerName { bytes: bytes + 1 })
            }
            Chunked::TrailerName { .. } => Err(Unreadable),
            Chunked::TrailerValue { bytes } => match first {
                b'\r' => one(Chunked::TrailerEnd { was_empty: false }),
                byte if is_value_byte(byte) && bytes < CHUNK_LINE_BYTES_MAX => {
                    one(Chunked::TrailerValue { bytes: bytes + 1 })
                }
                _ => Err(Unreadable),
            },
            Chunked::TrailerEnd { was_empty: false } => after(first, Chunked::TrailerName { bytes: 0 }),
            Chunked::TrailerEnd { was_empty: true } if first == b'\n' => {
                Ok(Some(Step { bytes: 1, next: None }))
            }
            Chunked::TrailerEnd { .. } => Err(Unreadable),
        }
    }
}

/// Returns the number of bytes in `input`, at most `bytes_max`.
fn available(input: &[u8], bytes_max: u64) -> usize {
    // A limit that doesn't fit is larger than any input.
    usize::try_from(bytes_max).map_or(input.len(), |bytes_max| bytes_max.min(input.len()))
}

/// Returns the step over the LF that must end a line here.
fn after(byte: u8, next: Chunked) -> Result<Option<Step>, Unreadable> {
    if byte == b'\n' { Ok(Some(Step { bytes: 1, next: Some(next) })) } else { Err(Unreadable) }
}

#[cfg(test)]
mod tests;
