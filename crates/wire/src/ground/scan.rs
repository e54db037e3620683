//! Searches for the end of a name, target or value, looking at eight bytes at a time (SWAR).
//!
//! For each search, there is a test that compares it to a simple implementation.

use cannery_base::swar::{self, eq_mask, first_eq_mask, first_lt_mask, lt_mask, repeat};

/// Returns the position of the first byte that is not allowed in field values (RFC 9110 §5.5).
#[inline]
pub(crate) fn value_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += first_control::<b' '>(&bytes[at..])?;
        // Unlike all other control characters, the tab is allowed.
        if bytes[at] != b'\t' {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns `true` if all bytes are allowed in field values (RFC 9110 §5.5).
#[inline]
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    let is_control = |word| lt_mask(word, b' ') & !eq_mask(word, b'\t') | eq_mask(word, DEL);
    !swar::any(bytes, is_control)
}

/// Returns `true` if all bytes are allowed in targets.
#[inline]
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    !swar::any(bytes, |word| first_lt_mask(word, b'!') | first_eq_mask(word, DEL))
}

/// Returns the position of the first byte that is not allowed in targets. Users do type non-ASCII bytes, and since these are not
/// ambiguous, they are allowed.
#[inline]
pub(crate) fn target_end(bytes: &[u8]) -> Option<usize> {
    first_control::<b'!'>(bytes)
}

/// Returns the position of the first byte that is neither a letter nor a hyphen (most names consist of these).
#[inline]
pub(crate) fn plain_name_end(bytes: &[u8]) -> Option<usize> {
    swar::position(bytes, odd_flags, |byte| !byte.is_ascii_alphabetic() && byte != b'-')
}

/// Flags all bytes that are neither letters nor hyphens.
#[inline]
const fn odd_flags(word: u64) -> u64 {
    let small = word | repeat(CASE_BIT);
    let letters = lt_mask(small, b'z' + 1) & !lt_mask(small, b'a');
    repeat(0x80) & !(letters | eq_mask(word, b'-'))
}

/// Returns the position of the first byte that is DEL or below `LEAST`, which must be at most 128.
#[inline]
fn first_control<const LEAST: u8>(bytes: &[u8]) -> Option<usize> {
    swar::position(bytes, control_flags::<LEAST>, |byte| byte < LEAST || byte == DEL)
}

/// Flags the first byte that is DEL or below `LEAST`. After this byte, some can be flagged by mistake because the subtraction
/// borrows from them. We can afford this cheaper computation, since we only use the first flag.
#[inline]
const fn control_flags<const LEAST: u8>(word: u64) -> u64 {
    let is_less = word.wrapping_sub(repeat(LEAST)) & !word;
    let differs_from_del = word ^ repeat(DEL);
    let is_del = differs_from_del.wrapping_sub(repeat(1)) & !differs_from_del;
    (is_less | is_del) & repeat(0x80)
}

const DEL: u8 = 0x7f;

/// The bit that is different in upper case and lower case letters.
const CASE_BIT: u8 = 0x20;

/// Returns `true` if a token is this name, in any letter case.
///
/// `known` must only have lower case letters and hyphens. If a byte of a token only differs in the case bit, this can only be the
/// upper case letter: all other candidates are not allowed in tokens.
#[inline]
pub(crate) fn is_name<const BYTES: usize>(token: &[u8], known: &[u8; BYTES]) -> bool {
    let Ok(token) = <&[u8; BYTES]>::try_from(token) else { return false };
    let differences = token.iter().zip(known).fold(0, |all, (byte, known)| all | (byte | CASE_BIT) ^ known);
    differences == 0
}

/// Returns the last letter of a token in lower case. Without a letter there, it may be any byte.
#[inline]
pub(crate) fn last_letter(token: &[u8]) -> u8 {
    token.last().map_or(0, |byte| byte | CASE_BIT)
}

#[cfg(test)]
mod tests;
