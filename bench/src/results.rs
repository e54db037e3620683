//! Results of a scenario: a table of medians with the conditions under which it was measured.
//!
//! A table is a TSV file in `bench/results/`. The page and the promises are computed from these files only.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value;

use crate::metric::Metric;

/// The medians of a scenario.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Results {
    /// Command, machine, versions, date and commit, as `key: value`.
    pub(crate) conditions: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// The medians of one server, or another series, at one step.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) step: String,
    /// A server's name, or the name of another thing that is compared.
    pub(crate) series: String,
    pub(crate) rounds: usize,
    pub(crate) values: BTreeMap<Metric, f64>,
}

/// Values of one round.
pub(crate) type Sample = Vec<(Metric, f64)>;

/// Samples of all rounds, in the order in which steps and series first occur.
#[derive(Default)]
pub(crate) struct Samples {
    groups: Vec<(String, String, Vec<Sample>)>,
}

impl Samples {
    /// Prints the values of one round, or the error, and adds them.
    pub(crate) fn record(&mut self, step: &str, series: &str, result: Result<Sample>) {
        match result {
            Ok(sample) => {
                let shown =
                    |(metric, value): &(Metric, f64)| format!("{} {}", metric.format(*value), metric.label());
                let values: Vec<_> = sample.iter().map(shown).collect();
                println!("{step:<17} {series:<25} {}", values.join(", "));
                self.add(step, series, sample);
            }
            Err(error) => {
                println!("{step:<17} {series:<25} failed: {error:#}");
                self.fail(step, series);
            }
        }
    }

    pub(crate) fn add(&mut self, step: &str, series: &str, sample: Sample) {
        let known = self.groups.iter_mut().find(|(other, name, _)| other == step && name == series);
        match known {
            Some((.., samples)) => samples.push(sample),
            None => self.groups.push((step.to_owned(), series.to_owned(), vec![sample])),
        }
    }

    /// Replaces all values of a series at a step by a failure.
    pub(crate) fn fail(&mut self, step: &str, series: &str) {
        self.groups.retain(|(other, name, _)| other != step || name != series);
        self.add(step, series, vec![(Metric::Errors, 1.0)]);
    }

    /// Returns the median of each metric over the rounds.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        let row = |(step, series, samples): (_, _, Vec<Sample>)| {
            let mut by_metric = BTreeMap::<_, Vec<f64>>::new();
            for (metric, value) in samples.iter().flatten() {
                by_metric.entry(*metric).or_default().push(*value);
            }
            let mut values = BTreeMap::new();
            if let Some(rounds) = by_metric.get(&Metric::CpuUs) {
                values.insert(Metric::CpuUsMin, rounds.iter().copied().fold(f64::MAX, f64::min));
                values.insert(Metric::CpuUsMax, rounds.iter().copied().fold(0.0, f64::max));
            }
            for (metric, rounds) in by_metric {
                // A median would hide rare events.
                let value = if metric == Metric::Above5Ms { rounds.iter().sum() } else { median(rounds) };
                values.insert(metric, value);
            }
            Row { step, series, rounds: samples.len(), values }
        };
        self.groups.into_iter().map(row).collect()
    }
}

/// Returns the middle value, the upper one of two, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Results {
    /// Returns a value, or `None` if it wasn't measured.
    pub(crate) fn get(&self, step: &str, series: &str, metric: Metric) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.step == step && row.series == series)?;
        row.values.get(&metric).copied()
    }

    /// Returns the steps in the order in which they were measured.
    pub(crate) fn steps(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.step.as_str()))
    }

    /// Returns the series in the order in which they were measured.
    pub(crate) fn series(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.series.as_str()))
    }

    /// Returns the metrics that occur, in the order of the columns.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = self.rows.iter().flat_map(|row| row.values.keys().copied()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Returns the value of a condition, such as `command`, or an empty string.
    pub(crate) fn condition(&self, key: &str) -> &str {
        let found = self.conditions.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        found.unwrap_or_default()
    }

    pub(crate) fn failures(&self) -> usize {
        self.rows.iter().filter(|row| row.values.contains_key(&Metric::Errors)).count()
    }

    pub(crate) fn read(path: &Path) -> Result<Results> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Results::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Results> {
        let (comments, table): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("# "));
        let conditions = comments.iter().map(|line| line[2..].to_owned()).collect();
        let (header, rows) = table.split_first().context("no header line")?;
        let names = header.strip_prefix("step\tseries\trounds\t").context("another header line")?;
        let metrics = names.split('\t').map(|name| Metric::deserialize(name.into_deserializer()));
        let metrics = metrics.collect::<Result<Vec<_>, value::Error>>()?;
        let rows = rows.iter().map(|line| parse_row(line, &metrics).with_context(|| format!("row `{line}`")));
        Ok(Results { conditions, rows: rows.collect::<Result<_>>()? })
    }

    /// Replaces the table of a scenario.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, self.to_string()).with_context(|| path.display().to_string())
    }
}

fn parse_row(line: &str, metrics: &[Metric]) -> Result<Row> {
    let columns: Vec<_> = line.split('\t').collect();
    ensure!(columns.len() == 3 + metrics.len(), "{} columns", columns.len());
    let mut values = BTreeMap::new();
    for (metric, cell) in metrics.iter().zip(&columns[3..]).filter(|(_, cell)| !cell.is_empty()) {
        values.insert(*metric, cell.parse()?);
    }
    Ok(Row { step: columns[0].into(), series: columns[1].into(), rounds: columns[2].parse()?, values })
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            writeln!(f, "# {condition}")?;
        }

        let metrics = self.metrics();
        let names: Vec<_> = metrics.iter().map(|metric| metric.name()).collect();
        writeln!(f, "step\tseries\trounds\t{}", names.join("\t"))?;
        for Row { step, series, rounds, values } in &self.rows {
            let cells =
                metrics.iter().map(|metric| values.get(metric).copied().map_or(String::new(), digits));
            writeln!(f, "{step}\t{series}\t{rounds}\t{}", cells.collect::<Vec<_>>().join("\t"))?;
        }
        Ok(())
    }
}

/// Formats a value with five significant digits, and integers from 1,000 on.
fn digits(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return format!("{value:.0}");
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// Returns each name once, in the order in which they first occur.
pub(crate) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_us: f64) -> Sample {
        vec![(Metric::CpuUs, cpu_us), (Metric::Busy, 0.5)]
    }

    #[test]
    fn rows_hold_medians_and_extremes() {
        let mut samples = Samples::default();
        for value in [9.0, 1.0, 5.0] {
            samples.add("64", "floor", sample(value));
        }
        let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
        let get = |metric| results.get("64", "floor", metric);
        assert_eq!([Metric::CpuUsMin, Metric::CpuUs, Metric::CpuUsMax].map(get), [1.0, 5.0, 9.0].map(Some));
        assert_eq!((get(Metric::P50Us), results.rows[0].rounds), (None, 3));
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_failure_replaces_earlier_rounds() {
        let mut samples = Samples::default();
        samples.add("64", "floor", sample(1.0));
        samples.fail("64", "floor");
        let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
        assert_eq!((results.failures(), results.get("64", "floor", Metric::CpuUs)), (1, None));
    }

    #[test]
    fn a_table_is_parsed_as_it_is_written() {
        let mut samples = Samples::default();
        samples.add("64", "floor", sample(3.25));
        samples.add("64", "nginx", vec![(Metric::RequestsPerS, 282_822.0)]);
        let written = Results { conditions: vec!["command: x".into()], rows: samples.into_rows() };
        let parsed = Results::parse(&written.to_string()).unwrap();
        assert_eq!(parsed, written);
        assert_eq!((parsed.condition("command"), parsed.series()), ("x", vec!["floor", "nginx"]));
        assert!(Results::parse("step\tseries\trounds\tmiles\n").is_err());
        assert!(Results::parse("step\tseries\trounds\tbusy\n64\tfloor\t1\n").is_err());
    }

    #[test]
    fn values_keep_five_digits() {
        assert_eq!([3.161_234_5, 0.970_001, 282_822.4].map(digits), ["3.1612", "0.97", "282822"]);
    }
}
