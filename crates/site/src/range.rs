//! `Range` to parts of a representation (RFC 9110 §14.1.2, §14.2), or the word that none can be had.
//!
//! Overlapping and adjacent ranges are merged, each where the first of them stood. Never serves more parts
//! than [`RANGES_MAX`]: whoever asks for more gets the whole.

use cannery_archive::Extent;

/// Parts of one answer. Readers of documents ask for a handful at a time; more is mostly meant to make a
/// server work (RFC 9110 §17.15).
pub const RANGES_MAX: usize = 8;

/// What a `Range` comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// It does not count: the whole is sent.
    Ignored,
    /// Nothing of what it asks for exists.
    Unsatisfiable,
    /// These parts, of which there is at least one.
    Parts(Parts),
}

/// Parts of a representation, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Positions count from the start of the representation; no length is 0.
    parts: [Extent; RANGES_MAX],
    count: usize,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { parts: [Extent { position: 0, length: 0 }; RANGES_MAX], count: 0 }
    }
}

impl Parts {
    /// The parts.
    pub(crate) fn as_slice(&self) -> &[Extent] {
        &self.parts[..self.count]
    }

    /// Adds a part, and merges it with those that it overlaps or adjoins; false if there are too many.
    fn add(&mut self, part: Extent) -> bool {
        let mut part = part;
        let mut place = self.count;
        // From the end, so that what is removed does not move what is still to be looked at.
        for other in (0..self.count).rev() {
            let known = self.parts[other];
            if part.position <= known.position + known.length && known.position <= part.position + part.length
            {
                let end = (part.position + part.length).max(known.position + known.length);
                let position = part.position.min(known.position);
                part = Extent { position, length: end - position };
                if place < self.count {
                    self.remove(place);
                }
                place = other;
            }
        }
        match self.parts.get_mut(place) {
            Some(slot) => {
                *slot = part;
                self.count = self.count.max(place + 1);
                true
            }
            None => false,
        }
    }

    fn remove(&mut self, place: usize) {
        self.parts.copy_within(place + 1..self.count, place);
        self.count -= 1;
    }
}

/// Reads a `Range` for a representation of `length` bytes.
pub(crate) fn parse(value: &[u8], length: u64) -> Ranges {
    let mut parts = Parts::default();
    let Some(unit_bytes) = value.iter().position(|byte| *byte == b'=') else { return Ranges::Ignored };
    let (unit, set) = (&value[..unit_bytes], &value[unit_bytes + 1..]);
    // Of a representation without bytes there is no part that could be named.
    if !unit.eq_ignore_ascii_case(b"bytes") || length == 0 && set.first() == Some(&b'-') {
        return Ranges::Ignored;
    }
    let (mut any, mut too_many) = (false, false);
    for element in set.split(|byte| *byte == b',') {
        let element = element.trim_ascii();
        if element.is_empty() {
            continue;
        }
        any = true;
        match parse_element(element, length) {
            Element::Malformed => return Ranges::Ignored,
            Element::Unsatisfiable => {}
            Element::Part(part) => too_many |= !parts.add(part),
        }
    }
    match parts.count {
        _ if !any || too_many => Ranges::Ignored,
        0 => Ranges::Unsatisfiable,
        _ => Ranges::Parts(parts),
    }
}

enum Element {
    Malformed,
    Unsatisfiable,
    Part(Extent),
}

/// `first-last`, `first-` or `-suffix`.
fn parse_element(element: &[u8], length: u64) -> Element {
    let Some(dash) = element.iter().position(|byte| *byte == b'-') else { return Element::Malformed };
    let (first, last) = (&element[..dash], &element[dash + 1..]);
    let (position, end) = match (parse_number(first), parse_number(last)) {
        // The last so many bytes.
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

/// Digits alone; a number that no file reaches counts as the largest there is.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// First and last byte of each part.
    fn parts(value: &str, length: u64) -> Vec<(u64, u64)> {
        match parse(value.as_bytes(), length) {
            Ranges::Parts(parts) => {
                parts.as_slice().iter().map(|part| (part.position, part.position + part.length - 1)).collect()
            }
            other => panic!("{value:?} is {other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_range_is_understood() {
        for (value, expected) in [
            ("bytes=0-499", vec![(0, 499)]),
            ("bytes=500-999", vec![(500, 999)]),
            ("bytes=-500", vec![(9500, 9999)]),
            ("bytes=9500-", vec![(9500, 9999)]),
            ("bytes=0-", vec![(0, 9999)]),
            ("BYTES=0-0", vec![(0, 0)]),
            ("bytes=9999-20000", vec![(9999, 9999)]),
            ("bytes=-20000", vec![(0, 9999)]),
            ("bytes=0-99999999999999999999999", vec![(0, 9999)]),
            ("bytes=0-0,-1", vec![(0, 0), (9999, 9999)]),
            ("bytes= 0-0 , ,\t5-6", vec![(0, 0), (5, 6)]),
            ("bytes=0-0,10000-", vec![(0, 0)]),
            // Merged where the first stood; the others keep their order.
            ("bytes=500-600,601-999", vec![(500, 999)]),
            ("bytes=500-700,601-999", vec![(500, 999)]),
            ("bytes=700-800,0-9,600-699", vec![(600, 800), (0, 9)]),
            ("bytes=0-9,20-29,10-19", vec![(0, 29)]),
            ("bytes=50-59,0-9,40-49,10-39", vec![(0, 59)]),
        ] {
            assert_eq!(parts(value, 10_000), expected, "{value}");
        }
    }

    #[test]
    fn what_cannot_be_had_or_understood_is_told_apart() {
        for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,99-100"] {
            assert_eq!(parse(value.as_bytes(), 10), Ranges::Unsatisfiable, "{value}");
        }
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-",
            "bytes=1",
            "bytes=5-4",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=0-1,x",
            "bytes =0-1",
            "octets=0-1",
            "bytes=0x1-2",
            "bytes=1 -2",
            "bytes:0-1",
        ] {
            assert_eq!(parse(value.as_bytes(), 10), Ranges::Ignored, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse(b"bytes=-5", 0), Ranges::Ignored);
    }

    #[test]
    fn too_many_parts_are_the_whole() {
        let list =
            |count: usize| (0..count).map(|at| format!("{0}-{0}", at * 10)).collect::<Vec<_>>().join(",");
        assert_eq!(parts(&format!("bytes={}", list(RANGES_MAX)), 10_000).len(), RANGES_MAX);
        let one_more = format!("bytes={}", list(RANGES_MAX + 1));
        assert_eq!(parse(one_more.as_bytes(), 10_000), Ranges::Ignored);
    }

    proptest! {
        /// The slow twin marks each byte that was asked for.
        #[test]
        fn parts_are_the_bytes_that_were_asked_for(
            length in 1u64..60,
            asked in proptest::collection::vec((0u64..70, 0u64..70), 1..RANGES_MAX),
        ) {
            let spelled = asked.iter().map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect::<Vec<_>>();
            let value = format!("bytes={}", spelled.join(","));
            let wanted: Vec<bool> = (0..length)
                .map(|at| asked.iter().any(|(a, b)| (*a.min(b)..=*a.max(b)).contains(&at)))
                .collect();
            match parse(value.as_bytes(), length) {
                Ranges::Ignored => prop_assert!(false, "{value} is understood"),
                Ranges::Unsatisfiable => prop_assert!(!wanted.contains(&true)),
                Ranges::Parts(parts) => {
                    let mut got = vec![0; wanted.len()];
                    for part in parts.as_slice() {
                        prop_assert!(part.length > 0);
                        for at in part.position..part.position + part.length {
                            got[usize::try_from(at).unwrap()] += 1;
                        }
                    }
                    prop_assert_eq!(got, wanted.iter().map(|wanted| i32::from(*wanted)).collect::<Vec<_>>());
                    // No two of them could be one.
                    let ends = |part: &Extent| (part.position, part.position + part.length);
                    for one in parts.as_slice() {
                        for other in parts.as_slice().iter().filter(|other| *other != one) {
                            prop_assert!(ends(one).1 < ends(other).0 || ends(other).1 < ends(one).0);
                        }
                    }
                }
            }
        }
    }
}
