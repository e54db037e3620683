//! Chooses a representation by `Accept-Encoding` (RFC 9110 §12.4.2, §12.5.3).
//!
//! The highest weight wins; if several representations have it, we choose the smallest of them.

use cannery_archive::{Coding, Corrupt, Representation};

use crate::request::Values;

/// Preference of a client for each coding.
///
/// Preferences are twice the weight in thousandths. This leaves a number for codings that are acceptable but not listed, higher
/// than 0 and lower than any weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights([u16; Coding::ALL.len()]);

const UNACCEPTABLE: u16 = 0;
const UNLISTED: u16 = 1;
const FULL: u16 = 2000;

/// Chooses a representation. They come in ascending order of size.
///
/// Returns `None` if none of them is acceptable to the client and there is no identity either.
// This is on the request path, so it should be inlined no matter how many other callers there are.
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
        if weight > best.map_or(UNACCEPTABLE, |(weight, _)| weight) {
            best = Some((weight, representation));
        }
    }
    // RFC 9110 §12.5.3: if the client does not accept any coding, we may send identity.
    Ok(best.map(|(_, representation)| representation).or(identity))
}

impl Weights {
    /// Parses the field.
    ///
    /// If the field is absent, all codings are acceptable. However, we prefer identity, since the client might not know any coding.
    #[must_use]
    pub fn parse(accept_encoding: &Values<'_>) -> Weights {
        if accept_encoding.is_absent() {
            let mut weights = Weights([UNLISTED; Coding::ALL.len()]);
            weights.0[Coding::Identity as usize] = FULL;
            return weights;
        }

        // When a coding or `*` is mentioned repeatedly, the first one should count.
        let mut listed = [None; Coding::ALL.len()];
        let mut others = None;
        for element in accept_encoding.lines().flat_map(|line| line.split(|byte| *byte == b',')) {
            let Some((name, weight)) = parse_element(element) else { continue };
            if name == b"*" {
                others.get_or_insert(weight);
            } else if let Some(coding) = Coding::from_name(name) {
                listed[coding as usize].get_or_insert(weight);
            }
        }

        let mut weights = Weights([UNACCEPTABLE; Coding::ALL.len()]);
        for coding in Coding::ALL {
            let unlisted = if coding == Coding::Identity { UNLISTED } else { UNACCEPTABLE };
            weights.0[coding as usize] = listed[coding as usize].or(others).unwrap_or(unlisted);
        }
        weights
    }

    fn of(&self, coding: Coding) -> u16 {
        self.0[coding as usize]
    }
}

/// Parses an element of the list: a name, possibly with a weight. This returns `None` for a malformed element, which should be
/// ignored.
fn parse_element(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';');
    let name = parts.next().map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())?;
    let mut weight = FULL;

    for parameter in parts {
        match parameter.trim_ascii() {
            [b'q' | b'Q', b'=', value @ ..] => weight = parse_weight(value)?,
            _ => return None,
        }
    }
    Some((name, weight))
}

/// Parses a weight, e.g. `0`, `1`, `0.5` or `1.000`. At most three decimals are allowed (RFC 9110 §12.4.2).
fn parse_weight(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (whole, b"".as_slice()),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };

    let mut thousandths = 0;
    for index in 0..3 {
        let digit = fraction.get(index).map_or(Some(b'0'), |byte| byte.is_ascii_digit().then_some(*byte))?;
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }

    match (whole, thousandths) {
        (b'1', 0) => Some(FULL),
        (b'0', thousandths) => Some(2 * thousandths),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
