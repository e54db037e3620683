//! A field line, spelled once for all connections: what the archiver and the server make ahead.
//!
//! Knows no connection's table, and is never used on the request path.

use cannery_archive::{NO_LINE_ID, NewHead, NewHpackLine};

use super::encode::put_string;
use super::field::FIELD_OVERHEAD;
use super::static_table;
use crate::limits::HPACK_TABLE_BYTES;

/// A line of this name, which is in small letters. `id` is its number, or [`NO_LINE_ID`]; a line that no table can hold
/// has none.
#[must_use]
pub fn encode_line(id: u8, name: &str, value: &[u8]) -> NewHpackLine {
    let (whole, named) = static_table::find(name, value);
    if let Some(static_index) = whole {
        return NewHpackLine { id: NO_LINE_ID, static_index, size: 0, literal: Vec::new() };
    }
    let mut literal = Vec::new();
    if named.is_none() {
        put_string(&mut literal, name.as_bytes());
    }
    put_string(&mut literal, value);
    let size = name.len() + value.len() + FIELD_OVERHEAD;
    let id = if size <= HPACK_TABLE_BYTES { id } else { NO_LINE_ID };
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    NewHpackLine { id, static_index: named.unwrap_or(0), size, literal }
}

/// The four runs of a head as HTTP/2 spells them, made from its status and text. `id_of` numbers each line, which it is
/// given as its name in small letters and its value.
#[must_use]
pub fn encode_head(head: &NewHead, mut id_of: impl FnMut(&str, &[u8]) -> u8) -> [Vec<NewHpackLine>; 4] {
    let status = head.status.to_string();
    let mut spell = |name: &str, value: &[u8]| encode_line(id_of(name, value), name, value);
    let status = vec![spell(":status", status.as_bytes())];
    let mut run = |text: &[u8]| parse_field_lines(text).map(|(name, value)| spell(&name, value)).collect();
    [status, run(&head.content_type), run(&head.representation), run(&head.resource)]
}

/// The fields of a run of lines of HTTP/1.1: each name in small letters, and its value.
pub fn parse_field_lines(text: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        Some((name, line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_static_table_has_is_not_spelled_again() {
        let whole = encode_line(3, ":status", b"200");
        assert_eq!(
            (whole.id, whole.static_index, whole.size, whole.literal.as_slice()),
            (NO_LINE_ID, 8, 0, b"".as_slice())
        );
        let named = encode_line(3, "content-encoding", b"br");
        assert_eq!((named.id, named.static_index, named.size), (3, 26, 50));
        assert_eq!(named.literal, b"\x02br");
        let unknown = encode_line(3, "x-a", b"");
        assert_eq!((unknown.id, unknown.static_index, unknown.size), (3, 0, 35));
        assert_eq!(unknown.literal, b"\x03x-a\0");
    }

    #[test]
    fn what_no_table_holds_has_no_number() {
        assert_eq!(encode_line(3, "date", &[b'x'; 4060]).id, 3);
        assert_eq!(encode_line(3, "date", &[b'x'; 4061]).id, NO_LINE_ID);
        assert_eq!(encode_line(3, "date", &[b'x'; 70_000]).size, u16::MAX);
    }

    #[test]
    fn runs_follow_the_text() {
        let head = NewHead {
            status: 404,
            sends_etag: false,
            overrides: 0,
            status_line: b"HTTP/1.1 404 Not Found\r\n".to_vec(),
            content_type: b"Content-Type: a/b\r\n".to_vec(),
            representation: Vec::new(),
            resource: b"Vary: Accept-Encoding\r\nX-A: b: c\r\n".to_vec(),
            hpack: Default::default(),
        };
        let mut asked = Vec::new();
        let runs = encode_head(&head, |name, value| {
            asked.push(format!("{name}={}", String::from_utf8_lossy(value)));
            7
        });
        assert_eq!(asked, [":status=404", "content-type=a/b", "vary=Accept-Encoding", "x-a=b: c"]);
        assert_eq!(runs[0], [encode_line(7, ":status", b"404")]);
        assert_eq!(runs[1], [encode_line(7, "content-type", b"a/b")]);
        assert!(runs[2].is_empty());
        assert_eq!(runs[3], [encode_line(7, "vary", b"Accept-Encoding"), encode_line(7, "x-a", b"b: c")]);
    }
}
