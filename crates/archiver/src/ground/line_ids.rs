//! Assigns IDs to frequent header lines. HTTP/2 and HTTP/3 use these IDs to refer to lines.
//!
//! The same lines must always get the same IDs, regardless of the order in which they are counted.

use std::cmp::Reverse;
use std::collections::HashMap;

use cannery_archive::{LINE_IDS, NO_LINE_ID, NewHead};
use cannery_wire::hpack;

/// Counts how often heads are used.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    heads: HashMap<NewHead, u64>,
}

impl Uses {
    pub(crate) fn add(&mut self, head: NewHead, uses: u64) {
        *self.heads.entry(head).or_insert(0) += uses;
    }

    /// Counts how many times each line is used. This ignores lines that do not fit into a dynamic table or are already
    /// in HPACK's static table.
    fn lines(&self) -> HashMap<Line, u64> {
        let mut lines = HashMap::new();
        for (head, uses) in &self.heads {
            let status = (":status".to_owned(), head.status.to_string().into_bytes());
            let runs = [&head.content_type, &head.representation, &head.resource];
            let fields = runs.into_iter().flat_map(|run| hpack::parse_field_lines(run));
            for line in fields.map(|(name, value)| (name, value.to_vec())).chain([status]) {
                if hpack::encode_line(0, &line.0, &line.1).id != NO_LINE_ID {
                    *lines.entry(line).or_insert(0) += uses;
                }
            }
        }
        lines
    }
}

/// A lower-case name and a value.
type Line = (String, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct LineIds {
    ids: HashMap<Line, u8>,
}

impl LineIds {
    /// Assigns IDs to the most frequent lines, starting at 0.
    pub(crate) fn of(uses: &Uses) -> LineIds {
        let mut lines: Vec<(Line, u64)> = uses.lines().into_iter().collect();
        lines.sort_unstable_by(|(line, uses), (other, others)| {
            (Reverse(uses), line).cmp(&(Reverse(others), other))
        });
        LineIds { ids: lines.into_iter().map(|(line, _)| line).zip(0..LINE_IDS).collect() }
    }

    /// Returns the ID of a line, or [`NO_LINE_ID`].
    pub(crate) fn get(&self, name: &str, value: &[u8]) -> u8 {
        self.ids.get(&(name.to_owned(), value.to_vec())).copied().unwrap_or(NO_LINE_ID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(resource: &str) -> NewHead {
        NewHead {
            status: 200,
            sends_etag: true,
            overrides: 0,
            status_line: Vec::new(),
            content_type: b"Content-Type: text/css\r\n".to_vec(),
            representation: Vec::new(),
            resource: resource.as_bytes().to_vec(),
            hpack: Default::default(),
            qpack: Default::default(),
        }
    }

    #[test]
    fn frequent_lines_have_low_ids() {
        let mut uses = Uses::default();
        for (resource, times) in [("X-A: 1\r\nVary: b\r\n", 1), ("X-B: 1\r\nVary: b\r\n", 2), ("", 1)] {
            uses.add(head(resource), times);
        }
        let ids = LineIds::of(&uses);
        assert_eq!(ids.get("content-type", b"text/css"), 0, "in all four");
        assert_eq!(ids.get("vary", b"b"), 1);
        assert_eq!(ids.get("x-b", b"1"), 2);
        assert_eq!(ids.get("x-a", b"1"), 3);
        assert_eq!(ids.get("vary", b"c"), NO_LINE_ID);
        assert_eq!(ids.get(":status", b"200"), NO_LINE_ID, "every peer has it");
    }

    #[test]
    fn number_of_ids_is_limited_by_the_format() {
        let mut uses = Uses::default();
        for number in 0..100 {
            let once = format!("X-{number:03}: 1\r\n");
            uses.add(head(&once), 1);
        }
        let ids = LineIds::of(&uses);
        let numbers: Vec<u8> = (0..100).map(|number| ids.get(&format!("x-{number:03}"), b"1")).collect();
        let expected = (1..LINE_IDS).chain([NO_LINE_ID; 100]).take(100).collect::<Vec<_>>();
        assert_eq!(numbers, expected, "equal ones by their names, behind the media type");
    }
}
