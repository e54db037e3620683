//! Encodes field lines without the dynamic table, so that they are valid on all connections.

use super::{integer, static_table};
use crate::compression::hpack::{put_integer, put_string};
use crate::ground::decimal::Decimal;

/// Appends a field line: the index if it is in the static table, and otherwise a literal (RFC 9204 §4.5.2, §4.5.4, §4.5.6). The
/// name must be in lower case.
pub fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "RFC 9114 §4.2: {name}");
    match static_table::find(name, value) {
        (Some(index), _) => put_integer(section, 0xc0, 6, index.into()),
        (None, Some(index)) => {
            put_integer(section, 0x50, 4, index.into());
            put_string(section, 0, 7, value);
        }
        (None, None) => {
            put_string(section, 0x20, 3, name.as_bytes());
            put_string(section, 0, 7, value);
        }
    }
}

/// Appends `:status`. We do not need to search the table for the usual ones.
#[inline]
pub(crate) fn put_status(section: &mut Vec<u8>, status: u16) {
    match status {
        206 => section.extend_from_slice(&[0xff, 65 - 63]),
        304 => section.push(0xc0 | 26),
        404 => section.push(0xc0 | 27),
        status => put_field(section, ":status", Decimal::new(status.into()).digits()),
    }
}

/// Appends the start of a literal whose name is from the static table (RFC 9204 §4.5.4). Callers still need to append the value.
#[inline]
pub(crate) fn put_name_index(section: &mut Vec<u8>, static_index: u8) {
    if static_index < 0x0f {
        section.push(0x50 | static_index);
    } else {
        section.extend_from_slice(&[0x5f, static_index - 0x0f]);
    }
}

/// Appends the start of a literal along with its name (RFC 9204 §4.5.6), in lower case. Callers still need to append the value.
pub(crate) fn put_literal_name(section: &mut Vec<u8>, name: &[u8]) {
    put_integer(section, 0x20, 3, name.len() as u64);
    section.extend(name.iter().map(u8::to_ascii_lowercase));
}

/// If a line's name is in the static table, returns it.
pub(crate) fn static_name(line: &[u8]) -> Option<&'static [u8]> {
    let prefix_bits = match line.first()? {
        0b1100_0000.. => 6,
        0b0101_0000..=0b0101_1111 => 4,
        _ => return None,
    };

    let (index, _) = integer::decode(line, prefix_bits).ok()?;
    let field = static_table::STATIC_TABLE.get(usize::try_from(index).ok()?)?;
    Some(field.name_text)
}

/// Returns `true` if a line is `:status`, in the form that [`put_field`] uses.
#[inline]
pub(crate) fn is_status(line: &[u8]) -> bool {
    // In the static table, it has the indices 24 to 28 and 63 to 71.
    matches!(line, [0xd8..=0xdc, ..] | [0xff, 0..=8, ..] | [0x5f, 9, ..])
}

#[cfg(test)]
mod tests;
