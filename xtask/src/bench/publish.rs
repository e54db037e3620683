//! `docs/benchmarks.md` and its pictures, from the files of figures of this kind of machine and from nothing else.
//!
//! Ratios come first: they travel between machines, and the figures that they are made of do not.

use std::fs;
use std::path::Path;

use super::figures::{Figures, Quantity};
use super::machine;
use super::measurements::{self, Measurement};
use super::picture::{Dots, Lines};
use super::promises::{BUSY_LEAST, Outcome, PROMISES};
use super::scenario::Scenario;
use super::scenarios;
use crate::error::Error;

/// What ratios are to.
const OURS: &str = "cannery";

/// What nobody can do without.
const FLOOR: &str = "floor";

/// The folder of pictures, beside the page.
const PICTURES: &str = "benchmarks";

/// Writes the page into a folder, of all that has figures in another.
pub(crate) fn page(results: &Path, docs: &Path) -> Result<(), Error> {
    let mut sources = Sources { results, conditions: Vec::new(), all: Figures::default() };
    let pictures = Pictures { folder: &docs.join(PICTURES) };
    let mut sections = String::new();
    for scenario in scenarios::ALL {
        if let Some((command, figures)) = sources.take(scenario.name)? {
            sections.push_str(&section(scenario, &command, &figures, &pictures)?);
        }
    }
    for measurement in measurements::ALL {
        if let Some((command, figures)) = sources.take(measurement.name)? {
            sections.push_str(&measured(measurement, &command, &figures));
        }
    }
    let Sources { conditions, all, .. } = sources;
    let of_ours = ratios_picture(&all, OURS, "CPU time for a request, as a multiple of Cannery's");
    let of_floor = ratios_picture(&all, FLOOR, "CPU time for a request, as a multiple of the floor's");
    pictures.write("ratios", &of_ours.draw())?;
    pictures.write("floor", &of_floor.draw())?;
    let text = [
        OPENING,
        &format!("\n```text\n{}\n```\n\n{REPEATING}\n", conditions.join("\n")),
        &promises(&all),
        &ratios(&all),
        &above_the_floor(&all),
        &sections,
    ]
    .concat();
    let path = docs.join("benchmarks.md");
    fs::write(&path, text).map_err(|source| Error::file(&path, source))?;
    println!("written: {}", path.display());
    Ok(())
}

/// Files of figures, and what has been read of them.
struct Sources<'a> {
    results: &'a Path,
    /// Machine and versions, each line once.
    conditions: Vec<String>,
    all: Figures,
}

impl Sources<'_> {
    /// The command and the figures of a name, if it was measured on this kind of machine.
    fn take(&mut self, name: &str) -> Result<Option<(String, Figures)>, Error> {
        let path = self.results.join(format!("{name}-{}.tsv", machine::slug()));
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let mut command = String::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# ")) {
            if let Some(words) = line.strip_prefix("command:") {
                command = words.trim().to_owned();
            } else if !self.conditions.iter().any(|known| known == line) {
                self.conditions.push(line.to_owned());
            }
        }
        let figures = Figures::read(&path)?;
        self.all.0.extend(figures.0.iter().cloned());
        Ok(Some((command, figures)))
    }
}

const OPENING: &str = "\
# Benchmarks

<!-- Written by `cargo xtask bench`; change xtask/src/bench/publish.rs and the scenarios instead. -->

Cannery beside nginx, h2o, lighttpd, Apache and Caddy, on the workloads that the field publishes, all on one machine. This
page has, in this order: what is promised and whether it is reached, how much CPU time the others need in comparison, and
a section for each workload with all of its figures.

Who is measured:

| name | what it is |
|---|---|
| cannery | `cannery-server` with an archive |
| cannery-ring, cannery-deferred | the same with `--io io_uring`, and with `--defer-accept` |
| dummy | Cannery's engine alone (`--dummy`): one fixed small answer whatever is asked, and no archive |
| floor | no server, but the least that one has to do: it calls epoll_wait, read and write, and sends the bytes that Cannery \
sends without looking at the request (`bench/floor.c`) |
| nginx, lighttpd, h2o, apache2, caddy | as Debian packages them, each tuned (`bench/peers/`) |

What the columns mean:

| column | meaning |
|---|---|
| CPU µs | user and system time of the server's whole process tree for one request, the median of all rounds. **The figure to \
compare**: requests a second depend on the load generator too, which is often the limit |
| lowest to highest | the same in the best and the worst round |
| of Cannery's | the same as a multiple of Cannery's: above 1, Cannery needs less |
| busy | how much of its processors' time the server used. Well below 100 %, something else was the limit |
| requests/s | answers in a second |
| p50, p99, p99.9 µs | half, 99 % and 99.9 % of all requests waited no longer than this |
| answer B | bytes of one answer, with its head |
| private MiB | memory of the server's own, without files that it maps |

A dash stands where a server does not hold so many connections or so many files on this machine, and *errors* where it had
one: then it has no figures there.
";

const REPEATING: &str = "\
To repeat it: `cargo xtask bench`, or `cargo xtask bench NAME` for one scenario; `--quick` shows within minutes that it
works. Programs are installed from Debian. The configurations of all servers are in `bench/peers/`, the scenarios in
`xtask/src/bench/scenarios/`, the reports of the load generators in `bench/results/`, and how it is measured in
`bench/README.md`. Every figure is the median of its rounds.";

fn promises(figures: &Figures) -> String {
    let mut text = "\n## What is promised\n\n| promise | | measured |\n|---|---|---|\n".to_owned();
    for promise in &PROMISES {
        let floor = promise.of_the_floor(figures);
        let floor = floor.map_or_else(String::new, |floor| format!(", the floor {}", precise(floor)));
        let shown = |figure| format!("{} {}{floor}", precise(figure), promise.unit());
        let (verdict, figure) = match promise.outcome(figures) {
            Outcome::Reached(figure) => ("reached", shown(figure)),
            Outcome::Missed(figure) => ("**missed**", shown(figure)),
            Outcome::Undecided(figure, busy) => {
                ("no verdict", format!("busy {:.0} %: {}", busy * 100.0, shown(figure)))
            }
            Outcome::Unknown => ("not measured", String::new()),
        };
        text.push_str(&format!("| {} | {verdict} | {figure} |\n", promise.says));
    }
    text.push_str(&format!("\n{}\n", wrapped(&about_threads())));
    text
}

/// Why some promises have no verdict.
fn about_threads() -> String {
    format!(
        "Of how much more several threads can do there is a verdict only where they, and the one thread that they are \
         compared with, used at least {:.0} % of their processors' time. Below that the load generator is the limit and \
         not the server: who waits for it is woken for fewer requests at a time, so that each costs more. That holds \
         for the floor as well, whose processes share nothing; what it needs, beside ours, is the machine's part.",
        BUSY_LEAST * 100.0
    )
}

/// Each contender's CPU time as a multiple of ours, for every step.
fn ratios(figures: &Figures) -> String {
    let mut names: Vec<&str> = Vec::new();
    let measured: Vec<_> =
        scenarios::ALL.into_iter().filter(|scenario| is_measured(scenario, figures)).collect();
    for name in measured.iter().flat_map(|scenario| figures.contenders(scenario.name)) {
        if !names.contains(&name) && name != OURS {
            names.push(name);
        }
    }
    // The ruler and the engine first, then the others in their order.
    names.sort_by_key(|name| !matches!(*name, "floor" | "dummy" | "cannery-ring" | "cannery-deferred"));
    let mut text = format!(
        "\n## How much more CPU time the others need\n\nFor one request, as a multiple of Cannery's: above 1, Cannery \
         needs less. The picture shows one step\nof each workload, the table all of them.\n\n![CPU time as a multiple of Cannery's]({PICTURES}/ratios.svg)\n\n| | | {} |\n|---|--:|{}\n",
        names.join(" | "),
        "--:|".repeat(names.len())
    );
    for scenario in measured {
        for point in figures.points(scenario.name) {
            let cells = names.iter().map(|name| {
                ratio(figures, scenario, point, name)
                    .map_or_else(|| failure(figures, scenario, point, name), precise)
            });
            text.push_str(&format!(
                "| [{}](#{}) | {} | {} |\n",
                scenario.title,
                scenario.name,
                step_name(scenario, point),
                cells.collect::<Vec<_>>().join(" | ")
            ));
        }
    }
    text
}

fn is_measured(scenario: &Scenario, figures: &Figures) -> bool {
    !figures.points(scenario.name).is_empty()
}

fn ratio(figures: &Figures, scenario: &Scenario, point: &str, name: &str) -> Option<f64> {
    ratio_to(OURS, figures, scenario, point, name)
}

/// CPU time as a multiple of somebody's, where both have figures.
fn ratio_to(base: &str, figures: &Figures, scenario: &Scenario, point: &str, name: &str) -> Option<f64> {
    let of = |name| figures.median(scenario.name, point, name, Quantity::ProcessorUs);
    Some(of(name)? / of(base)?)
}

/// What stands in place of a figure that there is not.
fn failure(figures: &Figures, scenario: &Scenario, point: &str, name: &str) -> String {
    let failed = figures.median(scenario.name, point, name, Quantity::Failures).is_some();
    let takes_part = figures.contenders(scenario.name).contains(&name);
    match (failed, takes_part) {
        (true, _) => "errors".into(),
        (false, true) => "–".into(),
        (false, false) => String::new(),
    }
}

/// `64 connections`, `2 threads`; nothing where there is one step only.
fn step_name(scenario: &Scenario, point: &str) -> String {
    if scenario.points.len() == 1 {
        String::new()
    } else {
        format!("{} {}", with_commas(point), unit(scenario, point))
    }
}

/// What the steps of a scenario are counted in.
fn unit(scenario: &Scenario, point: &str) -> &'static str {
    match (scenario.is_across_threads(), point) {
        (true, "1") => "thread",
        (true, _) => "threads",
        (false, _) => "connections",
    }
}

/// How much more than the floor everybody needs, over the scenarios that have one.
fn above_the_floor(figures: &Figures) -> String {
    let has_floor = |scenario: &&Scenario| figures.contenders(scenario.name).contains(&FLOOR);
    if !scenarios::ALL.iter().any(has_floor) {
        return String::new();
    }
    format!(
        "\n## How far everybody is from the floor\n\n{}\n\n![CPU time as a multiple of the floor's]({PICTURES}/floor.svg)\n",
        wrapped(
            "The same as a multiple of what the floor needs, which a server cannot do without: to be woken, to receive \
             and to send. Left of 1 is who sends in a cheaper way than by `write`: large answers of Cannery's without a \
             copy, small ones of several requests together, and the dummy less than all others."
        )
    )
}

/// One row for each scenario, at the step with 64 connections or else its first, as multiples of somebody's figures.
fn ratios_picture(figures: &Figures, base: &str, title: &str) -> Dots {
    let rows = scenarios::ALL.into_iter().filter_map(|scenario| {
        let points = figures.points(scenario.name);
        let point = points.iter().find(|point| **point == "64").or(points.first())?;
        let contenders = figures.contenders(scenario.name);
        let dots = contenders
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), ratio_to(base, figures, scenario, point, name)?)));
        let dots: Vec<_> = dots.collect();
        (!dots.is_empty()).then(|| (scenario.title.to_owned(), dots))
    });
    Dots { title: title.into(), rows: rows.collect() }
}

/// All about one scenario.
fn section(
    scenario: &Scenario,
    command: &str,
    figures: &Figures,
    pictures: &Pictures<'_>,
) -> Result<String, Error> {
    let mut text = format!(
        "\n<a id=\"{}\"></a>\n\n## {}\n\n{}\n",
        scenario.name,
        scenario.title,
        wrapped(&format!("{} Measured by `{command}`.", scenario.says))
    );
    let points = figures.points(scenario.name);
    if points.len() > 1 {
        // Not every generator tells how long requests wait.
        let is_there = |quantity| figures.0.iter().any(|figure| figure.quantity == quantity);
        for (quantity, words, logarithmic) in ACROSS.into_iter().filter(|(quantity, ..)| is_there(*quantity))
        {
            let name = format!("{}-{}", scenario.name, quantity.name());
            pictures.write(&name, &across(scenario, figures, quantity, words, logarithmic).draw())?;
            text.push_str(&format!("\n![{words}]({PICTURES}/{name}.svg)\n"));
        }
    } else if figures.0.iter().any(|figure| figure.quantity == Quantity::P50Us) {
        let name = format!("{}-waits", scenario.name);
        pictures.write(&name, &waits(scenario, figures, points[0]).draw())?;
        text.push_str(&format!("\n![How long requests wait]({PICTURES}/{name}.svg)\n"));
    }
    for point in points {
        text.push_str(&table(scenario, point, figures));
    }
    Ok(text)
}

/// All about one measurement without load.
fn measured(measurement: &Measurement, command: &str, figures: &Figures) -> String {
    let Measurement { name, title, says, points, quantities, .. } = measurement;
    let heads: Vec<_> = quantities.iter().map(|quantity| quantity.words()).collect();
    let mut text = format!(
        "\n<a id=\"{name}\"></a>\n\n## {title}\n\n{}\n\n| | | {} |\n|---|---|{}\n",
        wrapped(&format!("{says} Measured by `{command}`.")),
        heads.join(" | "),
        "--:|".repeat(heads.len())
    );
    for point in *points {
        for contender in figures.contenders(name) {
            let of = |quantity: &Quantity| figures.median(name, point, contender, *quantity);
            if of(&Quantity::Failures).is_some() {
                text.push_str(&format!("| {point} | {contender} | errors |\n"));
                continue;
            }
            if quantities.iter().all(|quantity| of(quantity).is_none()) {
                continue;
            }
            let cells: Vec<_> =
                quantities.iter().map(|quantity| of(quantity).map_or_else(String::new, precise)).collect();
            text.push_str(&format!("| {point} | {contender} | {} |\n", cells.join(" | ")));
        }
    }
    text
}

/// What is drawn across the steps of a scenario, and whether equal ratios are equally far apart.
const ACROSS: [(Quantity, &str, bool); 3] = [
    (Quantity::ProcessorUs, "CPU time for a request, µs", true),
    (Quantity::RequestsPerSecond, "Requests a second", false),
    (Quantity::P99Us, "99 % of requests wait at most, µs", true),
];

fn across(
    scenario: &Scenario,
    figures: &Figures,
    quantity: Quantity,
    words: &str,
    logarithmic: bool,
) -> Lines {
    let points = figures.points(scenario.name);
    let series = figures.contenders(scenario.name).into_iter().map(|name| {
        let of_point = |point: &&str| figures.median(scenario.name, point, name, quantity);
        (name.to_owned(), points.iter().map(of_point).collect())
    });
    Lines {
        title: words.into(),
        across: if scenario.is_across_threads() { "threads" } else { "connections" }.into(),
        series: series.collect(),
        steps: points.iter().map(|point| (*point).to_owned()).collect(),
        logarithmic,
    }
}

fn waits(scenario: &Scenario, figures: &Figures, point: &str) -> Lines {
    const PERCENTILES: [(Quantity, &str); 5] = [
        (Quantity::P50Us, "50 %"),
        (Quantity::P90Us, "90 %"),
        (Quantity::P99Us, "99 %"),
        (Quantity::P999Us, "99.9 %"),
        (Quantity::LongestUs, "all"),
    ];
    let series = figures.contenders(scenario.name).into_iter().map(|name| {
        let of = |&(quantity, _): &(Quantity, &str)| figures.median(scenario.name, point, name, quantity);
        (name.to_owned(), PERCENTILES.iter().map(of).collect())
    });
    Lines {
        title: "How long requests wait at most, µs".into(),
        across: "of all requests".into(),
        series: series.collect(),
        steps: PERCENTILES.map(|(_, words)| words.to_owned()).into(),
        logarithmic: true,
    }
}

/// The medians of one step.
fn table(scenario: &Scenario, point: &str, figures: &Figures) -> String {
    const COLUMNS: [Quantity; 6] = [
        Quantity::RequestsPerSecond,
        Quantity::P50Us,
        Quantity::P99Us,
        Quantity::P999Us,
        Quantity::AnswerBytes,
        Quantity::PrivateMib,
    ];
    let (unit, step) = (unit(scenario, point), with_commas(point));
    let heads = COLUMNS.map(Quantity::words).join(" | ");
    let mut text = format!(
        "\n| {step} {unit} | CPU µs | lowest to highest | of Cannery's | busy | {heads} |\n|---|{}\n",
        "--:|".repeat(4 + COLUMNS.len())
    );
    for name in figures.contenders(scenario.name) {
        let values = figures.values(scenario.name, point, name, Quantity::ProcessorUs);
        let Some(median) = figures.median(scenario.name, point, name, Quantity::ProcessorUs) else {
            let nothing = " | ".repeat(3 + COLUMNS.len());
            text.push_str(&format!("| {name} | {}{nothing} |\n", failure(figures, scenario, point, name)));
            continue;
        };
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let busy = figures.median(scenario.name, point, name, Quantity::Busy).unwrap_or(f64::NAN);
        let cells = COLUMNS.map(|quantity| {
            figures.median(scenario.name, point, name, quantity).map_or_else(String::new, precise)
        });
        text.push_str(&format!(
            "| {name} | {} | {}–{} | {} | {:.0} % | {} |\n",
            precise(median),
            precise(least),
            precise(most),
            ratio(figures, scenario, point, name).map_or_else(String::new, precise),
            busy * 100.0,
            cells.join(" | ")
        ));
    }
    text
}

/// A figure with as many digits as it is worth, and commas between thousands.
fn precise(figure: f64) -> String {
    match figure {
        0.0 => "0".into(),
        1000.0.. => with_commas(&format!("{figure:.0}")),
        100.0.. => format!("{figure:.0}"),
        _ if figure.fract() == 0.0 && figure >= 10.0 => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

fn with_commas(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Words in lines that are no longer than those of the other pages.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 120;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= COLUMNS {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// Where pictures are written.
struct Pictures<'a> {
    folder: &'a Path,
}

impl Pictures<'_> {
    fn write(&self, name: &str, picture: &str) -> Result<(), Error> {
        fs::create_dir_all(self.folder).map_err(|source| Error::file(self.folder, source))?;
        let path = self.folder.join(format!("{name}.svg"));
        fs::write(&path, picture).map_err(|source| Error::file(path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_they_are_worth() {
        let shown = [0.0, 0.126, 5.0, 12.34, 52.0, 210.4, 1000.0, 12_541_555.0].map(precise);
        assert_eq!(shown, ["0", "0.13", "5.00", "12.3", "52", "210", "1,000", "12,541,555"]);
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        assert_eq!((text.lines().count(), text.split_whitespace().count()), (3, 60));
    }
}
