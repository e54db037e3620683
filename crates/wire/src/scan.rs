//! Looking for the end of a name, a target or a value, eight bytes at a time.
//!
//! Never looks at what it finds: the parser does. Each search has a slow twin, which a test holds it against.

use cannery_base::swar::{self, eq_mask, lt_mask, repeat};

/// The place of the first byte that may not stand in a field's value (RFC 9110 §5.5).
#[inline]
pub(crate) fn value_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += first_control::<b' '>(&bytes[at..])?;
        // The one control byte that may.
        if bytes[at] != b'\t' {
            return Some(at);
        }
        at += 1;
    }
}

/// The place of the first byte that may not stand in a target. Bytes beyond ASCII are let through: people type them,
/// and they mean one thing only.
#[inline]
pub(crate) fn target_end(bytes: &[u8]) -> Option<usize> {
    first_control::<b'!'>(bytes)
}

/// The place of the first byte that is neither a letter nor a hyphen: most names hold nothing else.
#[inline]
pub(crate) fn plain_name_end(bytes: &[u8]) -> Option<usize> {
    swar::position(bytes, odd_flags, |byte| !byte.is_ascii_alphabetic() && byte != b'-')
}

/// The bytes that are neither letters nor hyphens.
#[inline]
const fn odd_flags(word: u64) -> u64 {
    let small = word | repeat(CASE_BIT);
    let letters = lt_mask(small, b'z' + 1) & !lt_mask(small, b'a');
    repeat(0x80) & !(letters | eq_mask(word, b'-'))
}

/// The place of the first byte that is less than `LEAST`, which is no more than 128, or DEL.
#[inline]
fn first_control<const LEAST: u8>(bytes: &[u8]) -> Option<usize> {
    swar::position(bytes, control_flags::<LEAST>, |byte| byte < LEAST || byte == DEL)
}

/// Flags the first byte that is less than `LEAST`, or DEL. Those above it may be flagged wrongly, since a subtraction
/// borrows from them: that is cheaper, and only the first one is asked for.
#[inline]
const fn control_flags<const LEAST: u8>(word: u64) -> u64 {
    let is_less = word.wrapping_sub(repeat(LEAST)) & !word;
    let differs_from_del = word ^ repeat(DEL);
    let is_del = differs_from_del.wrapping_sub(repeat(1)) & !differs_from_del;
    (is_less | is_del) & repeat(0x80)
}

const DEL: u8 = 0x7f;

/// In which a capital letter differs from a small one.
const CASE_BIT: u8 = 0x20;

/// Whether a token is this name in any letter case. `known` holds small letters and hyphens alone, of which no other
/// byte of a token differs in just the bit that tells capital from small letters.
#[inline]
pub(crate) fn is_name<const BYTES: usize>(token: &[u8], known: &[u8; BYTES]) -> bool {
    let Ok(token) = <&[u8; BYTES]>::try_from(token) else { return false };
    let differences = token.iter().zip(known).fold(0, |all, (byte, known)| all | (byte | CASE_BIT) ^ known);
    differences == 0
}

#[cfg(test)]
mod tests;
