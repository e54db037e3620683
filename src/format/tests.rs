//! Tests of the formats.

use super::*;

#[test]
fn counts_have_thousands_separators() {
    let shown: Vec<_> = [0, 7, 999, 1000, 12345, 1_234_567].into_iter().map(count).collect();
    assert_eq!(shown, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    assert_eq!(counted(1, "file"), "1 file");
    assert_eq!(counted(0, "file"), "0 files");
}

#[test]
fn bytes_have_three_digits_and_a_unit() {
    for (number, shown) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_995, "10.0 kB"),
        (67_170_732, "67.2 MB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (4_294_967_296, "4.29 GB"),
        (u64::MAX, "18.4 EB"),
    ] {
        assert_eq!(bytes(number), shown, "{number}");
    }
}

#[test]
fn percentages_durations_and_dates() {
    assert_eq!(percent(1, 4), "25.0 %");
    assert_eq!(percent(0, 0), "100.0 %");
    assert_eq!(seconds(0.042), "0.04 s");
    assert_eq!(seconds(12.34), "12.3 s");
    assert_eq!(seconds(200.4), "3 min 20 s");
    assert_eq!(seconds(119.96), "2 min 0 s");
    assert_eq!(minute(784_111_777), "1994-11-06 08:49");
}

#[test]
fn columns_are_aligned() {
    let mut table = Table::default();
    table.row("a").number("1").text("one");
    table.row("long").number("100");
    assert_eq!(table.render(1, Paint::none()), " a       1  one\n long  100\n");
}
