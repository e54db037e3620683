//! The content of a request: read to its end and thrown away, so that the next request is found.
//!
//! No request that we answer needs any. Never lets content be read as the next request: what breaks the
//! grammar of RFC 9112 §7.1, or is longer than is worth reading, ends the connection.

use super::parse::Framing;
use crate::grammar::{is_token_byte, is_value_byte};
use crate::limits::{CHUNK_LINE_BYTES_MAX, CONTENT_SKIPPED_BYTES_MAX};

/// How much of a request's content is still to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// All of it has come.
    #[default]
    Done,
    /// So many bytes.
    Length(u32),
    /// Chunks, of which so many bytes may still come before it is too much.
    Chunked(Chunked, u32),
}

/// Where in the chunked coding (RFC 9112 §7.1) the content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunked {
    /// In a chunk's size, of which so many digits have come.
    Size { size: u32, digits: u8 },
    /// In what follows a chunk's size on its line; so many bytes of it.
    Extension { size: u32, bytes: u16 },
    /// Behind the CR of a chunk's first line.
    SizeEnd { size: u32 },
    /// In a chunk's data, of which so many bytes are still to come.
    Data(u32),
    /// Behind a chunk's data.
    DataEnd,
    /// Behind the CR behind a chunk's data.
    DataLineEnd,
    /// In the name of a trailer field (RFC 9112 §7.1.2), of which `bytes` have come; none at the start of a line.
    TrailerName { bytes: u16 },
    /// In the value of a trailer field, whose line has `bytes` so far.
    TrailerValue { bytes: u16 },
    /// After the CR of a line of the trailer section, which was empty or not.
    TrailerEnd { was_empty: bool },
}

/// The content cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

impl Content {
    /// What follows a head; nothing where it is not worth reading.
    pub(super) fn of(framing: Framing) -> Option<Content> {
        let most = u32::try_from(CONTENT_SKIPPED_BYTES_MAX).unwrap_or(u32::MAX);
        match framing {
            Framing::Length(0) => Some(Content::Done),
            Framing::Length(length) => {
                u32::try_from(length).ok().filter(|length| *length <= most).map(Content::Length)
            }
            Framing::Chunked => Some(Content::Chunked(Chunked::Size { size: 0, digits: 0 }, most)),
        }
    }

    pub(super) fn is_done(self) -> bool {
        self == Content::Done
    }

    /// Throws away what `input` has of the content, and returns how many bytes that were.
    pub(super) fn skip(&mut self, input: &[u8]) -> Result<usize, Unreadable> {
        match self {
            Content::Done => Ok(0),
            Content::Length(left) => {
                let skipped = (*left).min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                *left -= skipped;
                if *left == 0 {
                    *self = Content::Done;
                }
                Ok(skipped as usize)
            }
            Content::Chunked(state, left) => {
                let mut at = 0;
                while let Some(step) = state.step(&input[at..])? {
                    at += step.bytes;
                    let bytes = u32::try_from(step.bytes).map_err(|_| Unreadable)?;
                    *left = left.checked_sub(bytes).ok_or(Unreadable)?;
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

/// A step through the chunked coding: bytes of the input, and the state behind them; none at the end.
struct Step {
    bytes: usize,
    next: Option<Chunked>,
}

impl Chunked {
    /// The next step, if `input` has any byte for it.
    fn step(self, input: &[u8]) -> Result<Option<Step>, Unreadable> {
        let Some(first) = input.first().copied() else { return Ok(None) };
        let one = |next| Ok(Some(Step { bytes: 1, next: Some(next) }));
        match self {
            Chunked::Size { size, digits } => match (char::from(first).to_digit(16), first) {
                // Eight digits say more than is ever read.
                (Some(digit), _) if digits < 8 => {
                    one(Chunked::Size { size: size << 4 | digit, digits: digits + 1 })
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
                let bytes = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                let next = if bytes == left { Chunked::DataEnd } else { Chunked::Data(left - bytes) };
                Ok(Some(Step { bytes: bytes as usize, next: Some(next) }))
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

/// The step over the LF that must end a line here.
fn after(byte: u8, next: Chunked) -> Result<Option<Step>, Unreadable> {
    if byte == b'\n' { Ok(Some(Step { bytes: 1, next: Some(next) })) } else { Err(Unreadable) }
}

#[cfg(test)]
mod tests;
