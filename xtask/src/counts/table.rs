//! The table of counts: one line for each case, as committed in `bench/counts.txt`.

use std::fmt;

/// Counts, and the tools that they were made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Compiler, simulator and C library.
    pub(super) tools: String,
    /// Sorted by step and case.
    pub(super) counts: Vec<Count>,
}

/// The instructions of one case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Count {
    pub(super) step: String,
    pub(super) case: String,
    pub(super) instructions: u64,
}

/// The comparison of one case between two tables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) text: String,
    /// Set if the case costs more than the tolerance, or if only one table has it.
    pub(super) is_finding: bool,
}

const TITLE: &str =
    "# Instructions of the request path: `cargo xtask counts` compares, `--accept` writes this.\n# ";

impl Table {
    /// Parses a table. Returns `None` if the text has another format.
    pub(super) fn parse(text: &str) -> Option<Table> {
        let (tools, lines) = text.strip_prefix(TITLE)?.split_once('\n')?;
        let counts: Option<Vec<_>> = lines.lines().map(parse_line).collect();
        Some(Table { tools: tools.into(), counts: counts? })
    }

    /// Compares every case of both tables: `self` was committed, `counted` is new.
    pub(super) fn compare(&self, counted: &Table, percent_max: u64) -> Vec<Compared> {
        let mut cases: Vec<_> = self.counts.iter().chain(&counted.counts).map(Count::name).collect();
        cases.sort_unstable();
        cases.dedup();
        cases
            .into_iter()
            .map(|name| compare(name, self.count(name), counted.count(name), percent_max))
            .collect()
    }

    fn count(&self, name: (&str, &str)) -> Option<u64> {
        self.counts.iter().find(|count| count.name() == name).map(|count| count.instructions)
    }
}

/// Sorts the counts and adds up those of the same case.
pub(super) fn sum(mut counts: Vec<Count>) -> Vec<Count> {
    counts.sort();
    counts.dedup_by(|next, sum| {
        let is_same = next.name() == sum.name();
        sum.instructions += if is_same { next.instructions } else { 0 };
        is_same
    });
    counts
}

impl Count {
    fn name(&self) -> (&str, &str) {
        (&self.step, &self.case)
    }
}

fn parse_line(line: &str) -> Option<Count> {
    let mut words = line.split_whitespace();
    let (step, case) = (words.next()?.into(), words.next()?.into());
    let instructions = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Count { step, case, instructions })
}

fn compare(name: (&str, &str), written: Option<u64>, counted: Option<u64>, percent_max: u64) -> Compared {
    let case = format!("{:<16} {:<26}", name.0, name.1);
    match (written, counted) {
        (Some(written), Some(counted)) => {
            let percent = (counted as f64 / written as f64 - 1.0) * 100.0;
            let text = format!("{case} {written:>7} {counted:>7} {percent:>+6.1} %");
            Compared { text, is_finding: 100 * counted > (100 + percent_max) * written }
        }
        (Some(written), None) => {
            Compared { text: format!("{case} {written:>7} is no longer counted"), is_finding: true }
        }
        (None, counted) => Compared {
            text: format!("{case} {:>7} is not in the table", counted.unwrap_or_default()),
            is_finding: true,
        },
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}{}", self.tools)?;
        for Count { step, case, instructions } in &self.counts {
            writeln!(f, "{step:<16} {case:<26} {instructions:>7}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, u64)]) -> Table {
        let count = |(case, instructions): &(&str, u64)| Count {
            step: "parse".into(),
            case: (*case).into(),
            instructions: *instructions,
        };
        Table { tools: "rustc 1".into(), counts: counts.iter().map(count).collect() }
    }

    #[test]
    fn table_is_parsed_as_written() {
        let table = table(&[("a", 1), ("a_name_longer_than_its_column", 123_456_789)]);
        assert_eq!(Table::parse(&table.to_string()), Some(table));
        for text in ["", "a b 1\n", &format!("{TITLE}rustc 1\na b\n"), &format!("{TITLE}rustc 1\na b 1 2\n")]
        {
            assert_eq!(Table::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn threads_of_a_case_are_added_up() {
        let counts = sum(table(&[("b", 2), ("a", 1), ("b", 3)]).counts);
        assert_eq!(counts, table(&[("a", 1), ("b", 5)]).counts);
    }

    #[test]
    fn increases_beyond_the_tolerance_are_found() {
        let written = table(&[("slower", 100), ("faster", 100), ("same", 100), ("gone", 100)]);
        let counted = table(&[("slower", 103), ("faster", 50), ("same", 102), ("new", 1)]);
        let compared = written.compare(&counted, 2);
        let findings: Vec<_> = compared.iter().filter(|line| line.is_finding).collect();
        let is_named = |name: &str| findings.iter().any(|line| line.text.contains(name));
        assert!(is_named("slower") && is_named("gone") && is_named("new"), "{compared:?}");
        assert_eq!((compared.len(), findings.len()), (5, 3));
    }
}
