//! Parses `Range` (RFC 9110 §14.1.2, §14.2).
//!
//! We merge ranges that overlap or touch, and put the result in place of the first one. If there are still more than
//! [`RANGES_MAX`], we ignore the field and send the whole representation.

use cannery_archive::Extent;

/// Maximum number of parts in a response. PDF viewers request a handful at a time; anything above is most likely an attack (RFC
/// 9110 §17.15).
pub const RANGES_MAX: usize = 8;

/// A parsed `Range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// Ignore the field and send the whole representation.
    Ignored,
    /// No range can be satisfied.
    Unsatisfiable,
    /// At least one part.
    Parts(Parts),
}

/// Parts of a representation, in the order we will send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Positions are relative to the representation. There are no empty parts.
    parts: [Extent; RANGES_MAX],
    count: usize,
}

/// There are too many parts.
struct TooManyParts;

impl Default for Parts {
    fn default() -> Self {
        Parts { parts: [Extent { position: 0, length: 0 }; RANGES_MAX], count: 0 }
    }
}

impl Parts {
    /// Returns the parts.
    pub(crate) fn as_slice(&self) -> &[Extent] {
        &self.parts[..self.count]
    }

    /// Adds a part. If this overlaps or touches other parts, they will be merged.
    ///
    /// # Errors
    /// If there are more than [`RANGES_MAX`] parts.
    fn add(&mut self, mut part: Extent) -> Result<(), TooManyParts> {
        let mut index = self.count;
        // Go backwards. This allows us to remove parts without moving those that come next.
        for other_index in (0..self.count).rev() {
            let other = self.parts[other_index];
            if part.position <= other.position + other.length && other.position <= part.position + part.length
            {
                let end = (part.position + part.length).max(other.position + other.length);
                let position = part.position.min(other.position);
                part = Extent { position, length: end - position };

                if index < self.count {
                    self.remove(index);
                }
                index = other_index;
            }
        }

        match self.parts.get_mut(index) {
            Some(slot) => {
                *slot = part;
                self.count = self.count.max(index + 1);
                Ok(())
            }
            None => Err(TooManyParts),
        }
    }

    fn remove(&mut self, index: usize) {
        self.parts.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }
}

/// Parses a `Range`. The representation has `length` bytes.
pub(crate) fn parse(value: &[u8], length: u64) -> Ranges {
    let Some(unit_bytes) = value.iter().position(|byte| *byte == b'=') else { return Ranges::Ignored };
    let (unit, set) = (&value[..unit_bytes], &value[unit_bytes + 1..]);
    // Without a last byte (the representation is empty), we can't express a suffix range in a 206 or 416.
    if !unit.eq_ignore_ascii_case(b"bytes") || length == 0 && set.first() == Some(&b'-') {
        return Ranges::Ignored;
    }

    let mut parts = Parts::default();
    let mut is_empty = true;
    let mut is_overflow = false;
    for element in set.split(|byte| *byte == b',') {
        let element = element.trim_ascii();
        if element.is_empty() {
            continue;
        }

        is_empty = false;
        match parse_element(element, length) {
            Element::Malformed => return Ranges::Ignored,
            Element::Unsatisfiable => {}
            Element::Part(part) => is_overflow |= parts.add(part).is_err(),
        }
    }

    match parts.count {
        _ if is_empty || is_overflow => Ranges::Ignored,
        0 => Ranges::Unsatisfiable,
        _ => Ranges::Parts(parts),
    }
}

enum Element {
    Malformed,
    Unsatisfiable,
    Part(Extent),
}

/// Parses `first-last`, `first-` or `-suffix`.
fn parse_element(element: &[u8], length: u64) -> Element {
    let Some(dash) = element.iter().position(|byte| *byte == b'-') else { return Element::Malformed };
    let (first, last) = (&element[..dash], &element[dash + 1..]);
    let (position, end) = match (parse_number(first), parse_number(last)) {
        // A suffix range means the last bytes.
        (None, Some(suffix)) if first.is_empty() => (length.saturating_sub(suffix), length),
        (Some(first), None) if last.is_empty() => (first, length),
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(length)),
        _ => return Element::Malformed,
    };

    if position >= end {
        return Element::Unsatisfiable;
    }

    Element::Part(Extent { position, length: end - position })
}

/// Parses a number, or returns `None` if there is a byte that is not a digit. If the number is too large, returns the maximum.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }

    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests;
