//! Reads `FORMAT.md` as data, with a decoder that only uses the tables on this page.
//!
//! It should never use any offsets from the crate's code.

use std::collections::BTreeMap;
use std::ops::Range;

use cannery_archive::Format;

const PAGE: &str = include_str!("../../FORMAT.md");

/// Returns a section's text. It ends before the next heading.
pub(crate) fn section(heading: &str) -> &'static str {
    let is_heading = |line: &str| line.trim_start_matches('#').strip_prefix(' ') == Some(heading);
    let line = PAGE.lines().find(|line| line.starts_with('#') && is_heading(line));
    let line = line.unwrap_or_else(|| panic!("FORMAT.md has no section `{heading}`"));
    // `line` is a slice of `PAGE`, so the difference of the pointers is an offset.
    let start = line.as_ptr() as usize - PAGE.as_ptr() as usize + line.len();
    let text = &PAGE[start..];
    text.find("\n#").map_or(text, |end| &text[..end])
}

/// Returns the last table of a section as rows and cells, without the header and the backticks.
pub(crate) fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let table = section(heading).rsplit("\n\n").find(|paragraph| paragraph.trim_start().starts_with('|'));
    let table = table.unwrap_or_else(|| panic!("section `{heading}` has no table"));
    let cells = |line: &'static str| {
        let inner = line.trim_matches('|').split('|');
        inner.map(|cell| cell.trim().trim_matches('`')).collect()
    };
    table.trim().lines().skip(2).map(cells).collect()
}

/// Returns a constant as text.
pub(crate) fn constant(name: &str) -> &'static str {
    let row = rows("How to read the tables").into_iter().find(|row| row[0] == name);
    row.unwrap_or_else(|| panic!("FORMAT.md has no constant `{name}`"))[1]
}

/// Returns a constant as a number.
pub(crate) fn number(name: &str) -> u64 {
    constant(name).parse().unwrap_or_else(|_| panic!("the constant `{name}` is not a number"))
}

/// Returns an enumeration's names and numbers. For flags, the numbers are bits.
pub(crate) fn enumeration(heading: &str) -> Vec<(u64, &'static str)> {
    rows(heading)
        .into_iter()
        .map(|row| (row[0].parse().unwrap_or_else(|_| panic!("`{heading}`: {row:?}")), row[1]))
        .collect()
}

/// Returns an enumeration's name for this number.
pub(crate) fn name_of(heading: &str, number: u64) -> &'static str {
    let found = enumeration(heading).into_iter().find(|(known, _)| *known == number);
    found.unwrap_or_else(|| panic!("`{heading}` has no number {number}")).1
}

/// Returns the names of all flags that are set. Panics if the page does not mention one of them.
pub(crate) fn flags_of(heading: &str, flags: u64) -> Vec<&'static str> {
    let known = enumeration(heading);
    assert_eq!(flags & !known.iter().fold(0, |all, (bit, _)| all | bit), 0, "a flag is not in `{heading}`");
    known.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name).collect()
}

/// A decoded structure.
pub(crate) struct Structure<'a> {
    bytes: &'a [u8],
    fields: BTreeMap<&'static str, Range<usize>>,
    /// Length, in bytes.
    pub(crate) length: usize,
}

impl<'a> Structure<'a> {
    /// Decodes the structure that `bytes` starts with. It's described in the section `heading`.
    pub(crate) fn decode(heading: &str, bytes: &'a [u8], format: Format) -> Self {
        let quantity = usize::try_from(format.quantity_bytes()).expect("4 or 8");
        let mut structure = Structure { bytes, fields: BTreeMap::new(), length: 0 };
        let mut is_fixed = true;

        for row in rows(heading) {
            let [offset, size, name, _] = row[..] else { panic!("`{heading}`: {row:?} has not four cells") };
            match offset {
                "–" => assert!(!is_fixed, "`{heading}`: `{name}` has a fixed offset"),
                offset => {
                    assert_eq!(sum(offset, quantity), structure.length, "`{heading}`: offset of `{name}`");
                }
            }
            let length = match size {
                "Q" => quantity,
                "rest" => bytes.len() - structure.length,
                size => size.parse().unwrap_or_else(|_| {
                    is_fixed = false;
                    usize::try_from(structure.number(size)).expect("a length fits")
                }),
            };
            let end = structure.length + length;
            assert!(end <= bytes.len(), "`{heading}`: `{name}` ends after the structure");
            structure.fields.insert(name, structure.length..end);
            structure.length = end;
        }
        structure
    }

    /// Decodes a structure. It must use up all of `bytes`.
    pub(crate) fn whole(heading: &str, bytes: &'a [u8], format: Format) -> Self {
        let structure = Structure::decode(heading, bytes, format);
        assert_eq!(structure.length, bytes.len(), "`{heading}` takes up all of the data");
        structure
    }

    /// Decodes several structures in a row. Given the first byte of each, `heading_at` should return the heading that describes it.
    pub(crate) fn sequence(
        mut bytes: &'a [u8],
        format: Format,
        heading_at: impl Fn(u64) -> &'static str,
    ) -> Vec<Self> {
        let mut structures = Vec::new();
        while let Some(first) = bytes.first() {
            let structure = Structure::decode(heading_at((*first).into()), bytes, format);
            bytes = &bytes[structure.length..];
            structures.push(structure);
        }
        structures
    }

    pub(crate) fn bytes(&self, field: &str) -> &'a [u8] {
        let range = self.fields.get(field).unwrap_or_else(|| panic!("no field `{field}` in the table"));
        &self.bytes[range.clone()]
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        let bytes = self.bytes(field);
        assert!(bytes.len() <= 8, "`{field}` is not a number");
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Computes an offset, for example `17 + 2Q`.
fn sum(offset: &str, quantity: usize) -> usize {
    let value = |term: &str| match term.trim().strip_suffix('Q') {
        Some("") => quantity,
        Some(factor) => factor.parse::<usize>().expect("a factor is a number") * quantity,
        None => term.trim().parse().unwrap_or_else(|_| panic!("`{offset}` is not an offset")),
    };
    offset.split('+').map(value).sum()
}
