//! Field lines encoded ahead of time, by the archiver and at server start.
//!
//! They are independent of any connection's table. Never used on the request path.

use cannery_archive::{NO_LINE_ID, NewHead, NewHpackLine};

use super::encoder::put_string;
use super::field::FIELD_OVERHEAD;
use super::static_table;
use crate::limits::HPACK_TABLE_BYTES;

/// Encodes a field line. The name must be in lower case.
///
/// `id` is the line's ID, or [`NO_LINE_ID`]. A line that is larger than any table gets no ID.
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
    // Without an ID only the difference to 0 matters.
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    NewHpackLine { id, static_index: named.unwrap_or(0), size, literal }
}

/// Encodes the four runs of lines of a response head, from its status and its text for HTTP/1.1.
///
/// `id_of` returns the ID of a line, given its name in lower case and its value.
#[must_use]
pub fn encode_head(head: &NewHead, mut id_of: impl FnMut(&str, &[u8]) -> u8) -> [Vec<NewHpackLine>; 4] {
    encode_runs(head, |name, value| encode_line(id_of(name, value), name, value))
}

/// Encodes the four runs of lines of a response head with `encode`, which gets names in lower case.
pub(crate) fn encode_runs<L>(head: &NewHead, mut encode: impl FnMut(&str, &[u8]) -> L) -> [Vec<L>; 4] {
    let status = vec![encode(":status", head.status.to_string().as_bytes())];
    let mut run = |text: &[u8]| parse_field_lines(text).map(|(name, value)| encode(&name, value)).collect();
    [status, run(&head.content_type), run(&head.representation), run(&head.resource)]
}

/// Parses field lines of HTTP/1.1. Returns each name, in lower case, with its value.
pub fn parse_field_lines(text: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        Some((name, line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests;
