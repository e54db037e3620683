//! Computes where the bodies of an archive are, without writing it.

use crate::layout::BODY_KEY_BYTES;
use crate::layout::format::Format;
use crate::layout::padding::{padding_bytes, zeros_before_body};
use crate::layout::{facts::FACTS_BYTES, name};
use crate::parts::Alignment;

/// Positions and lengths beyond this are refused, so that no sum can overflow.
const POSITION_MAX: u64 = u64::MAX >> 8;

/// Follows the calls of an [`crate::Assembler`], and returns the positions of bodies.
pub struct BodyPositions {
    format: Format,
    alignment: Alignment,
    position: u64,
}

impl BodyPositions {
    /// Starts like [`crate::Assembler::new`].
    #[must_use]
    pub fn new(format: Format, alignment: Alignment) -> BodyPositions {
        let facts = format.record_header_bytes() + (name::FACTS.len() + FACTS_BYTES) as u64;
        BodyPositions { format, alignment, position: format.header_bytes() + facts }
    }

    /// Adds a body. Returns the position of its content. The digest of the body is right before it.
    ///
    /// Returns `None` if no archive is this long.
    pub fn body(&mut self, length: u64) -> Option<u64> {
        if length > POSITION_MAX {
            return None;
        }
        if self.alignment == Alignment::Derived
            && let Some(zeros) = zeros_before_body(self.format, self.position, length)
        {
            self.position += padding_bytes(self.format, zeros);
        }
        let position = self.position + self.format.record_header_bytes() + BODY_KEY_BYTES as u64;
        self.position = position + length;
        (self.position <= POSITION_MAX).then_some(position)
    }

    /// Adds a record with a key and data of these lengths. Returns `None` if no archive is this long.
    pub fn record(&mut self, key_bytes: usize, data_bytes: usize) -> Option<()> {
        self.position += self.format.record_header_bytes() + key_bytes as u64 + data_bytes as u64;
        (self.position <= POSITION_MAX).then_some(())
    }
}
