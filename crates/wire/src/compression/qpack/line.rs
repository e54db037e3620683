//! Encodes field lines in advance, either in the archiver or when the server starts.
//!
//! They only refer to the static table, so they are valid on all connections. We never do this while answering requests.

use cannery_archive::{NO_LINE_ID, NewHead, NewQpackLine};

use super::put_field;
use crate::compression::hpack::{FIELD_OVERHEAD, encode_runs};
use crate::limits::QPACK_TABLE_BYTES;

/// Encodes a line. The name must be in lower case.
///
/// `id` is the line's ID, or [`NO_LINE_ID`]. If the line is in the static table or larger than any table, we will not use the ID.
#[must_use]
pub fn encode_line(id: u8, name: &str, value: &[u8]) -> NewQpackLine {
    let mut representation = Vec::new();
    put_field(&mut representation, name, value);
    // An indexed field line (RFC 9204 §4.5.2).
    if representation.first().is_some_and(|byte| byte & 0x80 != 0) {
        return NewQpackLine { id: NO_LINE_ID, size: 0, representation };
    }

    let size = name.len() + value.len() + FIELD_OVERHEAD;
    let id = if size <= QPACK_TABLE_BYTES { id } else { NO_LINE_ID };
    // Without an ID, it only matters that the size is not 0.
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    NewQpackLine { id, size, representation }
}

/// Encodes a head's lines in four runs, starting from the status and the text for HTTP/1.1.
///
/// `id_of` returns a line's ID. It gets the value, and the name in lower case.
#[must_use]
pub fn encode_head(head: &NewHead, mut id_of: impl FnMut(&str, &[u8]) -> u8) -> [Vec<NewQpackLine>; 4] {
    encode_runs(head, |name, value| encode_line(id_of(name, value), name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_representations() {
        let whole = encode_line(3, "accept-ranges", b"bytes");
        assert_eq!(whole, NewQpackLine { id: NO_LINE_ID, size: 0, representation: vec![0xc0 | 32] });
        let named = encode_line(3, "etag", b"\"~\"");
        assert_eq!((named.id, named.size, named.representation), (3, 39, b"\x57\x03\"~\"".to_vec()));
        let unknown = encode_line(3, "~", b"");
        assert_eq!((unknown.id, unknown.size, unknown.representation), (3, 33, b"\x21~\0".to_vec()));
    }

    #[test]
    fn line_larger_than_the_table_has_no_id() {
        assert_eq!(encode_line(3, "date", &[b'x'; 4060]).id, 3);
        assert_eq!(encode_line(3, "date", &[b'x'; 4061]).id, NO_LINE_ID);
        assert_eq!(encode_line(3, "date", &[b'x'; 70_000]).size, u16::MAX);
    }
}
