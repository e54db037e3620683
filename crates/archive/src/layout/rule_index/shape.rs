//! Shape of a pattern: its segments, and the literal after its splat.

use super::{AFFIX_BYTES_MAX, PATTERN_SEGMENTS_MAX};
use crate::layout::piece::Piece;

/// A pattern, split into segments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Only the last segment can be a splat.
    pub(super) segments: Vec<Segment>,
    /// The literal after the splat.
    pub(super) suffix: Vec<u8>,
}

/// One segment of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Exactly these bytes.
    Literal(Vec<u8>),
    /// These bytes and at least one more.
    Capture(Vec<u8>),
    /// These bytes and any others, including slashes.
    Splat(Vec<u8>),
}

impl Shape {
    /// Splits a pattern.
    ///
    /// Returns `None` if the pattern is too large for an index, or if its pieces are in an impossible order.
    pub(super) fn new(pattern: &[Piece<'_>]) -> Option<Shape> {
        let shape = Shape::split(pattern)?;
        let is_short = |segment: &Segment| segment.text().len() <= AFFIX_BYTES_MAX;
        let fits = shape.min_length() <= PATTERN_SEGMENTS_MAX
            && shape.suffix.len() <= AFFIX_BYTES_MAX
            && shape.segments.iter().all(is_short);
        fits.then_some(shape)
    }

    fn split(pattern: &[Piece<'_>]) -> Option<Shape> {
        let mut segments = Vec::new();
        let mut text = Vec::new();
        let mut is_captured = false;
        let mut pieces = pattern.iter();

        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Literal(literal) => {
                    for byte in *literal {
                        match byte {
                            b'/' if is_captured => is_captured = false,
                            b'/' => segments.push(Segment::Literal(std::mem::take(&mut text))),
                            // Captures end at a slash.
                            _ if is_captured => return None,
                            byte => text.push(*byte),
                        }
                    }
                }
                Piece::Capture(_) if is_captured => return None,
                Piece::Capture(_) => {
                    segments.push(Segment::Capture(std::mem::take(&mut text)));
                    is_captured = true;
                }
                Piece::Splat(_) if is_captured => return None,
                Piece::Splat(_) => {
                    segments.push(Segment::Splat(text));
                    let suffix = match pieces.next() {
                        None => Vec::new(),
                        Some(Piece::Literal(suffix)) => suffix.to_vec(),
                        Some(_) => return None,
                    };
                    return pieces.next().is_none().then_some(Shape { segments, suffix });
                }
            }
        }

        if !is_captured {
            segments.push(Segment::Literal(text));
        }
        Some(Shape { segments, suffix: Vec::new() })
    }

    /// Returns the minimum number of segments in a matching path.
    pub(super) fn min_length(&self) -> usize {
        self.segments.len() + self.suffix.iter().filter(|byte| **byte == b'/').count()
    }

    /// Returns `true` if a matching path may have more segments than that.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Splat(_)))
    }
}

impl Segment {
    fn text(&self) -> &[u8] {
        match self {
            Segment::Literal(text) | Segment::Capture(text) | Segment::Splat(text) => text,
        }
    }
}
