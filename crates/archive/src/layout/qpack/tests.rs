//! Runs are sliced by length. If a run is malformed, we find it.

use super::*;

fn line(id: u8, representation: &[u8]) -> NewQpackLine {
    NewQpackLine { id, size: 40, representation: representation.to_vec() }
}

fn runs() -> Vec<u8> {
    let mut out = Vec::new();
    let status = NewQpackLine { id: NO_LINE_ID, size: 0, representation: vec![0xd9] };
    let lines = [vec![status], vec![line(0, b"\x5f\x1d\x01a")], vec![]];
    let [status, content_type, representation] = lines;
    let resource = vec![line(1, b"\x21b\x01c"), line(255, b"\x57\x01d")];
    put_runs(&mut out, &[status, content_type, representation, resource]).unwrap();
    out
}

#[test]
fn runs_are_sliced_by_their_lengths() {
    let data = runs();
    let runs = QpackRuns::new(&data);
    let all = b"\xd9\x5f\x1d\x01a\x21b\x01c\x57\x01d";
    assert_eq!(runs.all().representations(), all);
    assert_eq!(runs.lines().representations(), &all[1..]);
    assert_eq!(runs.resource().representations(), &all[5..]);
    for lines in [runs.all(), runs.lines(), runs.resource()] {
        let joined: Vec<u8> = lines.flat_map(|line| line.representation.iter().copied()).collect();
        assert_eq!(joined, lines.representations());
    }
    assert_eq!(runs.all().nth(1), Some(line(0, b"\x5f\x1d\x01a").as_line()));
    assert_eq!(runs.resource().next(), Some(line(1, b"\x21b\x01c").as_line()));
    assert!(runs.is_valid());
}

#[test]
fn truncated_or_extended_runs_are_invalid() {
    let whole = runs();
    for length in 0..whole.len() {
        let runs = QpackRuns::new(&whole[..length]);
        assert!(!runs.is_valid(), "truncated to {length} bytes");
        assert!(runs.all().count() < 4 && runs.lines().count() < 4 && runs.resource().count() < 3);
    }
    let longer = [&whole[..], b"\xd9"].concat();
    assert!(!QpackRuns::new(&longer).is_valid());
}

#[test]
fn malformed_lines_are_invalid() {
    let whole = runs();
    let second_row = LENGTHS_BYTES + ROW_BYTES;
    let first_line = LENGTHS_BYTES + 4 * ROW_BYTES;

    for (offset, byte) in [
        (LENGTHS_BYTES, 0),      // A static line with an ID.
        (LENGTHS_BYTES + 1, 33), // A static line with a size.
        (second_row, 56),        // An ID out of range.
        (second_row, 254),       //
        (second_row + 1, 0),     // A literal without a size.
        (second_row + 3, 3),     // A row whose line ends too early.
        (first_line, 0x80),      // References to the dynamic table.
        (first_line + 1, 0x40),  //
        (first_line + 1, 0x10),  //
        (first_line + 1, 0x00),  //
        (first_line + 5, 0x31),  // A line that must never be indexed.
        (0, 4),                  // A part of the table that is not of whole rows.
    ] {
        let mut data = whole.clone();
        data[offset] = byte;
        assert!(!QpackRuns::new(&data).is_valid(), "byte {offset} is {byte}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_cause_a_panic(changes in proptest::collection::vec((0_usize..60, proptest::prelude::any::<u8>()), 0..8)) {
        let mut data = runs();
        let length = data.len();
        for (offset, byte) in changes {
            data[offset % length] = byte;
        }
        let runs = QpackRuns::new(&data);
        for lines in [runs.all(), runs.lines(), runs.resource()] {
            let bytes: usize = lines.map(|line| line.representation.len()).sum();
            proptest::prop_assert!(bytes <= length && lines.representations().len() <= length);
            if runs.is_valid() {
                proptest::prop_assert_eq!(bytes, lines.representations().len());
            }
        }
    }
}
