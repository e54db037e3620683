//! Formats numbers and tables for people.

use std::fmt::Write;

use indicatif::HumanCount;

use crate::output::Paint;

/// Formats a count with thousands separators, for example `12,345`.
#[must_use]
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats a count with its noun, for example `1 file` or `2 files`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// Formats a number of bytes with three significant digits and decimal units, e.g. `999 B`, `1.50 kB` or `67.2 MB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if number < 1000 {
        return format!("{number} B");
    }
    // Starting at 999.5, the next unit is needed, as three digits would be rounded up to 1,000.
    let mut size = number as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.5 {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = if size < 9.995 { 2 } else { usize::from(size < 99.95) };
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// Formats `part` as a percentage of `whole`, for example `23.4 %`.
///
/// By definition, anything is 100 % of 0.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    format!("{:.1} %", 100.0 * share)
}

/// Formats a duration in seconds, for example `0.04 s`, `12.3 s` or `3 min 20 s`.
#[must_use]
pub fn seconds(duration: f64) -> String {
    if duration >= 119.95 {
        let whole = duration.round();
        return format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0);
    }
    let decimals = if duration < 9.995 { 2 } else { 1 };
    format!("{duration:.decimals$} s")
}

/// Formats seconds since 1970 as UTC with minutes, for example `1994-11-06 08:49`.
#[must_use]
pub fn minute(seconds: u64) -> String {
    let timestamp = cannery_base::date::format_rfc3339(seconds);
    String::from_utf8_lossy(&timestamp[..16]).replace('T', " ")
}

/// A text table with aligned columns.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Cell {
    text: String,
    style: CellStyle,
}

#[derive(Debug, Clone, Copy)]
enum CellStyle {
    Text,
    /// Right-aligned.
    Number,
    /// Dimmed.
    Faint,
}

impl Table {
    /// Adds a row that starts with `name`.
    pub fn row(&mut self, name: impl Into<String>) -> Row<'_> {
        self.rows.push(Vec::new());
        Row { cells: self.rows.last_mut().expect("a row was pushed just now") }.text(name)
    }

    /// Returns `true` if the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table with each row indented by `indent` spaces.
    #[must_use]
    pub fn render(&self, indent: usize, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(|column| self.width(column)).collect();

        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - cell.text.chars().count());
                // Escape sequences do not have any width, so we need to pad according to the length of the
                // plain text.
                let shown = match cell.style {
                    CellStyle::Faint => paint.faint(&cell.text),
                    CellStyle::Text | CellStyle::Number => cell.text.clone(),
                };
                let (before, after) = match cell.style {
                    CellStyle::Number => (padding.as_str(), ""),
                    CellStyle::Text | CellStyle::Faint => ("", padding.as_str()),
                };
                // Writing to a string cannot fail.
                let _ = write!(line, "{before}{shown}{after}  ");
            }
            // No padding after the last cell, so that wide tables do not wrap.
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the column width in characters.
    ///
    /// Note that this is not the same as terminal columns: file names in wide scripts (e.g. Chinese) will shift the
    /// columns after them.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    }
}

/// Adds cells to a row of a [`Table`].
#[derive(Debug)]
pub struct Row<'t> {
    cells: &'t mut Vec<Cell>,
}

impl Row<'_> {
    /// Adds a left-aligned text cell.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), CellStyle::Text)
    }

    /// Adds a right-aligned number cell.
    pub fn number(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), CellStyle::Number)
    }

    /// Adds a left-aligned, dimmed cell that explains the others.
    pub fn faint(self, text: impl Into<String>) -> Self {
        self.cell(text.into(), CellStyle::Faint)
    }

    fn cell(self, text: String, style: CellStyle) -> Self {
        self.cells.push(Cell { text, style });
        self
    }
}

#[cfg(test)]
mod tests;
