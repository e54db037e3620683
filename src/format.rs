//! Numbers and tables as people read them.
//!
//! Pure: text in, text out. Never prints.

use std::fmt::Write;

use crate::output::Paint;

/// A count with thousands set apart: `12,345`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 file`, `2 files`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// A number of bytes in three or four digits, in units of 1,000: `999 B`, `1.50 kB`, `67.2 MB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if number < 1000 {
        return format!("{number} B");
    }
    // Shares of a unit that rounding takes up to 1,000 belong to the next one.
    let mut size = number as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.5 {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = if size < 9.995 { 2 } else { usize::from(size < 99.95) };
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// What part one number is of another, in percent: `23.4 %`. Nothing of nothing is all of it.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    format!("{:.1} %", 100.0 * share)
}

/// A time span: `0.04 s`, `12.3 s`, `3 min 20 s`.
#[must_use]
pub fn seconds(span: f64) -> String {
    if span >= 119.95 {
        let whole = span.round();
        return format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0);
    }
    let decimals = if span < 9.995 { 2 } else { 1 };
    format!("{span:.decimals$} s")
}

/// A time since 1970 in UTC, to the minute: `1994-11-06 08:49`.
#[must_use]
pub fn minute(seconds: u64) -> String {
    let spelled = cannery_base::date::format_rfc3339(seconds);
    String::from_utf8_lossy(&spelled[..16]).replace('T', " ")
}

/// Rows whose columns stand below each other.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Cell {
    text: String,
    to_the_right: bool,
    faint: bool,
}

impl Table {
    /// Adds a row that begins with a name.
    pub fn row(&mut self, name: impl Into<String>) -> Row<'_> {
        self.rows.push(Vec::new());
        Row { cells: self.rows.last_mut().expect("a row was pushed just now") }.words(name)
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each with this indent.
    #[must_use]
    pub fn print(&self, indent: usize, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - cell.text.chars().count());
                let shown = if cell.faint { paint.faint(&cell.text) } else { cell.text.clone() };
                let (before, after) =
                    if cell.to_the_right { (padding.as_str(), "") } else { ("", padding.as_str()) };
                // Writing into a string cannot fail.
                let _ = write!(line, "{before}{shown}{after}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Letters are counted, not terminal columns: wide scripts in file names shift what follows them.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    }
}

/// The row of a [`Table`] that is being filled.
#[derive(Debug)]
pub struct Row<'t> {
    cells: &'t mut Vec<Cell>,
}

impl Row<'_> {
    /// A cell with words, set to the left.
    pub fn words(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), false, false)
    }

    /// A cell with a number, set to the right.
    pub fn number(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), true, false)
    }

    /// A cell that explains the others, set to the left.
    pub fn faint(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), false, true)
    }

    fn cell(self, text: String, to_the_right: bool, faint: bool) -> Self {
        self.cells.push(Cell { text, to_the_right, faint });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
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
    fn shares_and_spans() {
        assert_eq!(percent(1, 4), "25.0 %");
        assert_eq!(percent(0, 0), "100.0 %");
        assert_eq!(seconds(0.042), "0.04 s");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(200.4), "3 min 20 s");
        assert_eq!(seconds(119.96), "2 min 0 s");
        assert_eq!(minute(784_111_777), "1994-11-06 08:49");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::default();
        table.row("a").number("1").words("one");
        table.row("long").number("100");
        assert_eq!(table.print(1, Paint::none()), " a       1  one\n long  100\n");
    }
}
