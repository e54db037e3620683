//! Runs are sliced by length. If a run is malformed, we find it.

use super::*;

fn line(id: u8, literal: &[u8]) -> NewHpackLine {
    NewHpackLine { id, static_index: 31, size: 40, literal: literal.to_vec() }
}

fn runs() -> Vec<u8> {
    let mut out = Vec::new();
    let status = NewHpackLine { id: NO_LINE_ID, static_index: 8, size: 0, literal: Vec::new() };
    put_runs(&mut out, &[vec![status], vec![line(0, b"a")], vec![], vec![line(1, b"b"), line(255, b"cc")]])
        .unwrap();
    out
}

#[test]
fn runs_are_sliced_by_their_lengths() {
    let data = runs();
    let runs = HpackRuns::new(&data);
    let literals =
        |lines: HpackLines<'_>| lines.map(|line| line.literal.to_vec()).collect::<Vec<_>>().join(&b'|');
    assert_eq!(literals(runs.all()), b"|a|b|cc");
    assert_eq!(literals(runs.lines()), b"a|b|cc");
    assert_eq!(literals(runs.content_type()), b"a");
    assert_eq!(runs.representation().count(), 0);
    assert_eq!(literals(runs.resource()), b"b|cc");
    assert_eq!(runs.all().nth(1), Some(line(0, b"a").as_line()));
    assert!(runs.is_valid());
}

#[test]
fn truncated_or_misnumbered_runs_are_invalid() {
    let whole = runs();
    for length in 0..whole.len() {
        let runs = HpackRuns::new(&whole[..length]);
        assert!(!runs.is_valid(), "truncated to {length} bytes");
        assert!(runs.all().count() < 4 && runs.lines().count() < 4 && runs.resource().count() < 3);
    }
    // The first line's ID is followed by its static index. Without the index, the line is empty.
    for (offset, byte) in [(8, 56), (8, 254), (9, 0)] {
        let mut data = whole.clone();
        data[offset] = byte;
        assert!(!HpackRuns::new(&data).is_valid());
    }
}
