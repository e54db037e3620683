//! Patterns and templates in rules. Both consist of literals and captures, and have the same encoding.
//!
//! A rule matches a path against its pattern and then expands a template using the captures. The result is a redirect target or
//! another path.

use super::{Fields, put_bytes_u16};
use crate::{Corrupt, WriteError};

const LITERAL: u8 = 0;
const CAPTURE: u8 = 1;
const SPLAT: u8 = 2;

/// A piece of a pattern or a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Literal bytes.
    Literal(&'a [u8]),
    /// In a pattern: one or more bytes up to the next `/`. In a template: the capture with this number.
    Capture(u8),
    /// In a pattern: zero or more bytes, including slashes. Not used in templates.
    Splat(u8),
}

/// The pieces of a pattern or template, decoded one at a time. Stops after an error.
#[derive(Clone, Copy)]
pub struct Pieces<'a>(Fields<'a>);

impl<'a> Pieces<'a> {
    pub(crate) fn new(fields: Fields<'a>) -> Self {
        Pieces(fields)
    }

    fn decode(&mut self) -> Result<Piece<'a>, Corrupt> {
        match self.0.u8()? {
            LITERAL => {
                let length = self.0.u16()?;
                Ok(Piece::Literal(self.0.take(length.into())?))
            }
            CAPTURE => Ok(Piece::Capture(self.0.u8()?)),
            SPLAT => Ok(Piece::Splat(self.0.u8()?)),
            _ => Err(self.0.corrupt()),
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let piece = self.decode();
        if piece.is_err() {
            // We do not know where the next piece starts.
            self.0.skip_rest();
        }
        Some(piece)
    }
}

impl std::fmt::Debug for Pieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

pub(crate) fn encode<'p>(
    out: &mut Vec<u8>,
    pieces: impl IntoIterator<Item = Piece<'p>>,
) -> Result<(), WriteError> {
    for piece in pieces {
        match piece {
            Piece::Literal(bytes) => {
                out.push(LITERAL);
                put_bytes_u16(out, "a literal of a rule", bytes)?;
            }
            Piece::Capture(number) => out.extend_from_slice(&[CAPTURE, number]),
            Piece::Splat(number) => out.extend_from_slice(&[SPLAT, number]),
        }
    }
    Ok(())
}
