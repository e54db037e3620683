//! A pattern cut into the segments of the paths that it matches.
//!
//! Never holds a pattern against a path.

use super::{AFFIX_BYTES_MAX, PATTERN_SEGMENTS_MAX};
use crate::layout::piece::Piece;

/// A pattern by segments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// What each segment is, the first at place 0. A splat is the last.
    pub(super) segments: Vec<Segment>,
    /// The literal behind the splat.
    pub(super) suffix: Vec<u8>,
}

/// One segment of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Just these bytes.
    Literal(Vec<u8>),
    /// These bytes and at least one more.
    Capture(Vec<u8>),
    /// These bytes, and then anything, across segments.
    Splat(Vec<u8>),
}

impl Shape {
    /// The shape of a pattern. Returns `None` for one that is too large for an index, or that has pieces in an order that
    /// no pattern has.
    pub(super) fn of(pattern: &[Piece<'_>]) -> Option<Shape> {
        let shape = Shape::cut(pattern)?;
        let tail = shape.suffix.iter().filter(|byte| **byte == b'/').count();
        let is_short = |segment: &Segment| segment.text().len() <= AFFIX_BYTES_MAX;
        let fits = shape.segments.len() + tail <= PATTERN_SEGMENTS_MAX
            && shape.suffix.len() <= AFFIX_BYTES_MAX
            && shape.segments.iter().all(is_short);
        fits.then_some(shape)
    }

    fn cut(pattern: &[Piece<'_>]) -> Option<Shape> {
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
                            // A capture ends at a slash.
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

    /// The fewest segments of a path that it matches, and whether a path may have more.
    pub(super) fn lengths(&self) -> (usize, bool) {
        let tail = self.suffix.iter().filter(|byte| **byte == b'/').count();
        (self.segments.len() + tail, matches!(self.segments.last(), Some(Segment::Splat(_))))
    }
}

impl Segment {
    fn text(&self) -> &[u8] {
        match self {
            Segment::Literal(text) | Segment::Capture(text) | Segment::Splat(text) => text,
        }
    }
}
