//! Encodes field lines in advance, either in the archiver or when the server starts.
//!
//! They do not depend on a connection's table. We never do this while answering requests.

use cannery_archive::{NO_LINE_ID, NewHead, NewHpackLine};

use super::encoder::put_string;
use super::field::FIELD_OVERHEAD;
use super::static_table;
use crate::limits::HPACK_TABLE_BYTES;

/// Encodes a line. The name must be in lower case.
///
/// `id` is the line's ID, or [`NO_LINE_ID`]. If the line is larger than any table, we will not use the ID.
#[must_use]
pub fn encode_line(id: u8, name: &str, value: &[u8]) -> NewHpackLine {
    let (whole, named) = static_table::find(name, value);
    if let Some(static_index) = whole {
        return NewHpackLine { id: NO_LINE_ID, static_index, size: 0, literal: Vec::new() };
    }

    let mut literal = Vec::new();
    if named.is_none() {
        put_string(&mut literal, 0, 7, name.as_bytes());
    }
    put_string(&mut literal, 0, 7, value);

    let size = name.len() + value.len() + FIELD_OVERHEAD;
    let id = if size <= HPACK_TABLE_BYTES { id } else { NO_LINE_ID };
    // Without an ID, it only matters that the size is not 0.
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    NewHpackLine { id, static_index: named.unwrap_or(0), size, literal }
}

/// Encodes a head's lines in four runs, starting from the status and the text for HTTP/1.1.
///
/// `id_of` returns a line's ID. It gets the value, and the name in lower case.
#[must_use]
pub fn encode_head(head: &NewHead, mut id_of: impl FnMut(&str, &[u8]) -> u8) -> [Vec<NewHpackLine>; 4] {
    encode_runs(head, |name, value| encode_line(id_of(name, value), name, value))
}

/// Encodes a head's lines in four runs, by calling `encode` with each name (in lower case) and value.
pub(crate) fn encode_runs<L>(head: &NewHead, mut encode: impl FnMut(&str, &[u8]) -> L) -> [Vec<L>; 4] {
    let status = vec![encode(":status", head.status.to_string().as_bytes())];
    let mut run = |text: &[u8]| parse_field_lines(text).map(|(name, value)| encode(&name, value)).collect();
    [status, run(&head.content_type), run(&head.representation), run(&head.resource)]
}

/// Parses HTTP/1.1 field lines. Returns names and values. Names are in lower case.
pub fn parse_field_lines(text: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        Some((name, line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests;
