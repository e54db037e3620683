//! `Accept-Encoding` to a representation (RFC 9110 §12.4.2, §12.5.3).
//!
//! The client's weights decide; among equals the smallest representation wins. Never sees a body.

use cannery_archive::{Coding, Corrupt, Representation};

use crate::request::Values;

/// How much a client wants each coding.
///
/// Twice the weight in thousandths, so that there is room for "acceptable, but unnamed" between
/// forbidden and the smallest weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights([u16; Coding::ALL.len()]);

const FORBIDDEN: u16 = 0;
const UNNAMED: u16 = 1;
const FULL: u16 = 2000;

/// Chooses a representation; they come smallest first. Nothing if the client forbids all there are, and
/// identity is not among them.
// Every request goes through it, and other callers must not make it a call of its own there.
#[inline(always)]
pub(crate) fn choose<'a>(
    representations: impl Iterator<Item = Result<Representation<'a>, Corrupt>>,
    accept_encoding: &Values<'_>,
) -> Result<Option<Representation<'a>>, Corrupt> {
    let mut weights = None;
    let mut best: Option<(u16, Representation<'a>)> = None;
    let mut identity = None;
    for representation in representations {
        let representation = representation?;
        if representation.coding == Coding::Identity {
            identity = Some(representation);
        }
        let weights = weights.get_or_insert_with(|| Weights::parse(accept_encoding));
        let weight = weights.of(representation.coding);
        if weight > best.map_or(FORBIDDEN, |(weight, _)| weight) {
            best = Some((weight, representation));
        }
    }
    // A client that forbids everything gets identity: better than nothing (RFC 9110 §12.5.3).
    Ok(best.map(|(_, representation)| representation).or(identity))
}

impl Weights {
    /// The weights that a field states. An absent one states that anything will do, and identity best,
    /// since who cannot say what it decodes may decode nothing.
    #[must_use]
    pub fn parse(accept_encoding: &Values<'_>) -> Weights {
        if accept_encoding.is_absent() {
            let mut weights = Weights([UNNAMED; Coding::ALL.len()]);
            weights.0[Coding::Identity as usize] = FULL;
            return weights;
        }
        let mut named = [None; Coding::ALL.len()];
        let mut others = None;
        for element in accept_encoding.lines().flat_map(|line| line.split(|byte| *byte == b',')) {
            let Some((name, weight)) = parse_element(element) else { continue };
            if name == b"*" {
                others.get_or_insert(weight);
            } else if let Some(coding) = coding_of(name) {
                // Of a coding named twice the first mention counts; of `*` too.
                named[coding as usize].get_or_insert(weight);
            }
        }
        let mut weights = Weights([FORBIDDEN; Coding::ALL.len()]);
        for coding in Coding::ALL {
            let unnamed = if coding == Coding::Identity { UNNAMED } else { FORBIDDEN };
            weights.0[coding as usize] = named[coding as usize].or(others).unwrap_or(unnamed);
        }
        weights
    }

    fn of(&self, coding: Coding) -> u16 {
        self.0[coding as usize]
    }
}

fn coding_of(name: &[u8]) -> Option<Coding> {
    let known: [(&[u8], Coding); 5] = [
        (b"gzip", Coding::Gzip),
        (b"br", Coding::Brotli),
        (b"zstd", Coding::Zstd),
        (b"identity", Coding::Identity),
        // RFC 9110 §8.4.1.3: to be treated as `gzip`.
        (b"x-gzip", Coding::Gzip),
    ];
    known.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, coding)| coding)
}

/// One element of the list: a name and its weight. One that breaks the grammar counts as absent.
fn parse_element(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';');
    let name = parts.next().map(trim).filter(|name| !name.is_empty())?;
    let mut weight = FULL;
    for parameter in parts {
        match trim(parameter) {
            [b'q' | b'Q', b'=', value @ ..] => weight = parse_weight(value)?,
            _ => return None,
        }
    }
    Some((name, weight))
}

/// `0`, `1`, `0.5`, `1.000`: at most three digits behind the point (RFC 9110 §12.4.2).
fn parse_weight(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (whole, b"".as_slice()),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = fraction.get(place).map_or(Some(b'0'), |byte| byte.is_ascii_digit().then_some(*byte))?;
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }
    match (whole, thousandths) {
        (b'1', 0) => Some(FULL),
        (b'0', thousandths) => Some(2 * thousandths),
        _ => None,
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_archive::Extent;

    fn chosen(held: &[Coding], accept_encoding: Option<&str>) -> Option<Coding> {
        let representations = held.iter().map(|coding| {
            let body = Extent { position: 0, length: 0 };
            Ok(Representation { coding: *coding, etag: b"0123456789abcdef", body, head: 0 })
        });
        let values = accept_encoding.map_or(Values::NONE, |value| Values::one(value.as_bytes()));
        choose(representations, &values).unwrap().map(|representation| representation.coding)
    }

    const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

    #[test]
    fn the_smallest_of_the_most_wanted_is_sent() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        for (accept_encoding, expected) in [
            ("gzip, deflate, br, zstd", Brotli),
            ("gzip", Gzip),
            ("x-gzip", Gzip),
            ("GZIP", Gzip),
            ("br;q=1, gzip;q=0.8", Brotli),
            ("br;q=0.8, gzip;q=1.0", Gzip),
            ("gzip;q=0", Identity),
            ("br;q=0, *", Zstd),
            ("*", Brotli),
            ("*;q=0", Identity),
            ("*;q=0, zstd", Zstd),
            ("identity;q=0.5, gzip;q=0.2", Identity),
            ("gzip;q=0.001", Gzip),
            ("identity;q=0", Identity),
            ("deflate", Identity),
            ("", Identity),
            (" , ,", Identity),
            ("gzip ; q=1", Gzip),
            ("gzip;q=1.5", Identity),
            ("gzip;q=0.0001", Identity),
            ("gzip;q=", Identity),
            ("gzip;level=9", Identity),
            ("br;q=x, gzip", Gzip),
            ("brotli", Identity),
            ("gzip;q=0, gzip", Identity),
        ] {
            assert_eq!(chosen(&ALL, Some(accept_encoding)), Some(expected), "{accept_encoding:?}");
        }
    }

    #[test]
    fn an_absent_field_means_identity_or_else_anything() {
        assert_eq!(chosen(&ALL, None), Some(Coding::Identity));
        assert_eq!(chosen(&[Coding::Gzip], None), Some(Coding::Gzip));
    }

    #[test]
    fn what_is_forbidden_is_not_sent_in_place_of_identity() {
        assert_eq!(chosen(&[Coding::Gzip], Some("")), None);
        assert_eq!(chosen(&[Coding::Gzip], Some("br")), None);
        assert_eq!(chosen(&[Coding::Gzip], Some("gzip;q=0")), None);
        assert_eq!(chosen(&[Coding::Gzip], Some("gzip")), Some(Coding::Gzip));
    }

    #[test]
    fn a_list_may_stand_in_several_lines() {
        let mut values = Values::one(b"gzip;q=0.5");
        assert!(values.push(b"br"));
        let weights = Weights::parse(&values);
        assert_eq!((weights.of(Coding::Gzip), weights.of(Coding::Brotli)), (1000, FULL));
    }
}
