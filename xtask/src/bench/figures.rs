//! What was measured, one figure a line, as a file that a program reads and a person can: the pages and the
//! promises are computed from these files and from nothing else.

use std::fmt;
use std::fs;
use std::path::Path;

use super::{machine, median};
use crate::error::Error;

/// One measured number, with all that tells it from others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The step within the scenario: how many connections, or threads, or which coding.
    pub(crate) point: String,
    pub(crate) contender: String,
    /// Counted from 1.
    pub(crate) round: u64,
    pub(crate) quantity: Quantity,
    pub(crate) value: f64,
}

/// What a number counts, and in what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// User and system time of the server's whole process tree for one request.
    ProcessorUs,
    RequestsPerSecond,
    /// How much of its processors' time the server used: below 1 somebody else was the limit.
    Busy,
    P50Us,
    P90Us,
    P99Us,
    P999Us,
    LongestUs,
    /// Of one answer's head.
    HeadBytes,
    /// Of a head over HTTP/2, when the client has had the same before.
    WarmHeadBytes,
    /// Of one answer, as it stands on the wire.
    AnswerBytes,
    /// Memory of the server's own.
    PrivateMib,
    FirstAnswerMs,
    /// Memory of the server's own for one connection that waits.
    IdleBytes,
    BuildS,
    BuildProcessorS,
    BuildPeakMib,
    ArchiveBytes,
    /// The contender had errors here, and has no other figures.
    Failures,
}

/// Each quantity with its name in the files and its words on the page.
const QUANTITIES: [(Quantity, &str, &str); 19] = [
    (Quantity::ProcessorUs, "cpu_us", "CPU µs/request"),
    (Quantity::RequestsPerSecond, "requests_per_s", "requests/s"),
    (Quantity::Busy, "busy", "busy"),
    (Quantity::P50Us, "p50_us", "p50 µs"),
    (Quantity::P90Us, "p90_us", "p90 µs"),
    (Quantity::P99Us, "p99_us", "p99 µs"),
    (Quantity::P999Us, "p999_us", "p99.9 µs"),
    (Quantity::LongestUs, "longest_us", "longest µs"),
    (Quantity::HeadBytes, "head_bytes", "head B"),
    (Quantity::WarmHeadBytes, "warm_head_bytes", "head B, warm"),
    (Quantity::AnswerBytes, "answer_bytes", "answer B"),
    (Quantity::PrivateMib, "private_mib", "private MiB"),
    (Quantity::FirstAnswerMs, "first_answer_ms", "first answer ms"),
    (Quantity::IdleBytes, "idle_bytes", "B/idle connection"),
    (Quantity::BuildS, "build_s", "build s"),
    (Quantity::BuildProcessorS, "build_cpu_s", "build CPU s"),
    (Quantity::BuildPeakMib, "build_peak_mib", "peak MiB"),
    (Quantity::ArchiveBytes, "archive_bytes", "bytes"),
    (Quantity::Failures, "failures", "errors"),
];

impl Quantity {
    pub(crate) fn name(self) -> &'static str {
        let found = QUANTITIES.iter().find(|(quantity, ..)| *quantity == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// As the head of a column.
    pub(crate) fn words(self) -> &'static str {
        let found = QUANTITIES.iter().find(|(quantity, ..)| *quantity == self);
        found.map_or("", |(.., words)| words)
    }

    fn named(name: &str) -> Option<Quantity> {
        QUANTITIES.iter().find(|(_, other, _)| *other == name).map(|(quantity, ..)| *quantity)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { scenario, point, contender, round, quantity, value } = self;
        write!(f, "{scenario}\t{point}\t{contender}\t{round}\t{}\t{value}", quantity.name())
    }
}

/// The figures of one or more scenarios.
#[derive(Debug, Default)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Figures {
    /// Reads a file of lines as they are displayed; lines that begin with `#` say what they depend on.
    pub(crate) fn read(path: &Path) -> Result<Figures, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figures = lines.map(|line| {
            parse(line).ok_or_else(|| Error::Unexpected {
                what: path.display().to_string(),
                expected: "six columns with tabs between them".into(),
                got: line.into(),
            })
        });
        figures.collect::<Result<_, _>>().map(Figures)
    }

    /// Replaces the file of a scenario, on this kind of machine. What they depend on stands before them.
    pub(crate) fn save(&self, folder: &Path, scenario: &str, opening: &str) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
        let path = folder.join(format!("{scenario}-{}.tsv", machine::slug()));
        let mut text: String = opening.lines().map(|line| format!("# {line}\n")).collect();
        for figure in &self.0 {
            text.push_str(&format!("{figure}\n"));
        }
        fs::write(&path, text).map_err(|source| Error::file(&path, source))
    }

    /// The values of all rounds.
    pub(crate) fn values(
        &self,
        scenario: &str,
        point: &str,
        contender: &str,
        quantity: Quantity,
    ) -> Vec<f64> {
        let is_meant = |figure: &&Figure| {
            figure.scenario == scenario
                && figure.point == point
                && figure.contender == contender
                && figure.quantity == quantity
        };
        self.0.iter().filter(is_meant).map(|figure| figure.value).collect()
    }

    /// The middle value of all rounds, if there was one.
    pub(crate) fn median(
        &self,
        scenario: &str,
        point: &str,
        contender: &str,
        quantity: Quantity,
    ) -> Option<f64> {
        let values = self.values(scenario, point, contender, quantity);
        (!values.is_empty()).then(|| median(values))
    }

    /// The points of a scenario, in the order in which they were measured.
    pub(crate) fn points(&self, scenario: &str) -> Vec<&str> {
        distinct(
            self.0.iter().filter(|figure| figure.scenario == scenario).map(|figure| figure.point.as_str()),
        )
    }

    /// Who was measured in a scenario, in the order in which they were.
    pub(crate) fn contenders(&self, scenario: &str) -> Vec<&str> {
        let of_scenario = self.0.iter().filter(|figure| figure.scenario == scenario);
        distinct(of_scenario.map(|figure| figure.contender.as_str()))
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn parse(line: &str) -> Option<Figure> {
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    let figure = Figure {
        scenario: next()?.into(),
        point: next()?.into(),
        contender: next()?.into(),
        round: next()?.parse().ok()?,
        quantity: Quantity::named(next()?)?,
        value: next()?.parse().ok()?,
    };
    columns.next().is_none().then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(point: &str, contender: &str, value: f64) -> Figure {
        let (scenario, point, contender) = ("k1".into(), point.into(), contender.into());
        Figure { scenario, point, contender, round: 1, quantity: Quantity::P99Us, value }
    }

    #[test]
    fn a_figure_is_read_as_it_was_written() {
        let written = figure("64", "floor", 3.161);
        assert_eq!(parse(&written.to_string()), Some(written));
        assert_eq!(parse("k1\t64\tfloor\t1\tp99_us"), None);
        assert_eq!(parse("k1\t64\tfloor\t1\tmiles\t3"), None);
        assert_eq!(parse("k1\t64\tfloor\t1\tp99_us\t3\t4"), None);
    }

    #[test]
    fn the_median_is_of_one_point_and_one_contender() {
        let all = [("64", "floor", 1.0), ("64", "floor", 9.0), ("64", "floor", 2.0), ("128", "floor", 7.0)];
        let figures = Figures(all.map(|(point, contender, value)| figure(point, contender, value)).into());
        assert_eq!(figures.median("k1", "64", "floor", Quantity::P99Us), Some(2.0));
        assert_eq!(figures.median("k1", "64", "floor", Quantity::P50Us), None);
        assert_eq!(figures.median("k1", "64", "nginx", Quantity::P99Us), None);
        assert_eq!(figures.points("k1"), ["64", "128"]);
    }

    #[test]
    fn every_quantity_has_one_name() {
        for (quantity, name, _) in QUANTITIES {
            assert_eq!((quantity.name(), Quantity::named(name)), (name, Some(quantity)));
        }
    }
}
