//! `docs/benchmarks.md` and its charts, printed from the tables of results.
//!
//! Ratios come first: they hold on other machines too, absolute values don't.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::chart::{self, Series};
use crate::metric::{Metric, PERCENTILES};
use crate::promise::{BUSY_MIN, FLOOR, OURS, Verdict};
use crate::results::Results;
use crate::scenario::{Group, Kind, Scenario, Scenarios};

/// The folder of charts, next to the page.
const CHARTS: &str = "benchmarks";

const OPENING: &str = "\
# Benchmarks

<!-- Printed by `cargo xtask bench page` from bench/results/ and bench/scenarios.toml. Change those instead. -->

Cannery compared with nginx, h2o, lighttpd, Apache and Caddy on published workloads, all on one machine. The value to
compare is **CPU time per request**: user and system time of the server's whole process tree. Requests per second also
depend on the load generator, which is often the limit.
";

const READING: &str = "\
## Servers and columns

| server | description |
|---|---|
| cannery | `cannery-server` with an archive |
| cannery-ring, cannery-deferred | the same with `--io io_uring`, and with `--defer-accept` |
| dummy | Cannery's engine alone (`--dummy`): one fixed small response for every request, no archive |
| floor | a lower bound, not a server: it calls epoll_wait, read and write, and sends the bytes that Cannery sends without looking at the request (`bench/floor.c`) |
| nginx, lighttpd, h2o, apache2, caddy | as Debian packages them, each tuned (`bench/peers/`) |

| column | meaning |
|---|---|
| CPU µs | CPU time per request, the median of all rounds |
| lowest to highest | the same in the best and the worst round |
| × Cannery | the same as a multiple of Cannery's: above 1, Cannery needs less |
| busy | CPU time as a share of the time of the server's processors. Well below 100 %, the load generator was the limit |
| requests/s | responses per second |
| p50, p99, p99.9 µs | latency that half, 99 % and 99.9 % of all requests didn't exceed |
| response B | bytes of the first response on the wire, with its header section |
| warm header B | bytes of a response's header block over HTTP/2 when the client has received the same fields before |
| private MiB | anonymous memory of the server, without mapped files |

A dash means that the server can't hold this number of connections or files on this machine, and *errors* that it had at
least one. All values are medians of the rounds.

To repeat a measurement, run its command. `cargo xtask bench` repeats all comparisons; [bench/README.md](../bench/README.md)
describes the method.
";

/// All results by scenario.
type All = BTreeMap<String, Results>;

/// Prints the page and its charts.
pub(crate) fn write(scenarios: &Scenarios, results: &Path, docs: &Path) -> Result<()> {
    let all = read_all(scenarios, results)?;
    let charts = docs.join(CHARTS);
    fs::create_dir_all(&charts)?;
    for (name, svg) in draw_charts(scenarios, &all)? {
        let path = charts.join(format!("{name}.svg"));
        fs::write(&path, svg).with_context(|| path.display().to_string())?;
    }
    let path = docs.join("benchmarks.md");
    fs::write(&path, page(scenarios, &all)).with_context(|| path.display().to_string())?;
    println!("written: {}", path.display());
    Ok(())
}

/// Reads the tables that exist.
fn read_all(scenarios: &Scenarios, folder: &Path) -> Result<All> {
    let mut all = BTreeMap::new();
    for Scenario { name, .. } in &scenarios.all {
        let path = folder.join(format!("{name}.tsv"));
        if path.is_file() {
            all.insert(name.clone(), Results::read(&path)?);
        }
    }
    Ok(all)
}

fn page(scenarios: &Scenarios, all: &All) -> String {
    let mut text = OPENING.to_owned();
    text.push_str(&verdicts(scenarios, all));
    text.push_str(&comparison(scenarios, all));
    text.push_str(&format!("\n{READING}\n```text\n{}\n```\n", machines(all).join("\n")));

    let groups = [
        (Group::Clear, "Without TLS"),
        (Group::Secured, "TLS and HTTP/2"),
        (Group::Cannery, "Cannery alone"),
    ];
    for (group, heading) in groups {
        let members: Vec<_> =
            measured(scenarios, all).filter(|(scenario, _)| scenario.group == group).collect();
        if members.is_empty() {
            continue;
        }
        text.push_str(&format!("\n## {heading}\n"));
        members.iter().for_each(|(scenario, results)| text.push_str(&section(scenario, results)));
    }
    text
}

/// Returns the scenarios that have results.
fn measured<'a>(scenarios: &'a Scenarios, all: &'a All) -> impl Iterator<Item = (&'a Scenario, &'a Results)> {
    scenarios.all.iter().filter_map(|scenario| Some((scenario, all.get(&scenario.name)?)))
}

/// Returns machines and versions, each line once.
fn machines(all: &All) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in all.values().flat_map(|results| &results.conditions) {
        let is_shared = line.starts_with("machine: ") || line.starts_with("version: ");
        if is_shared && !lines.contains(&line.as_str()) {
            lines.push(line);
        }
    }
    lines.sort_unstable();
    lines
}

fn verdicts(scenarios: &Scenarios, all: &All) -> String {
    let mut rows = String::new();
    let mut kept = 0;
    let mut count = 0;
    for (scenario, results) in measured(scenarios, all) {
        for promise in &scenario.promises {
            count += 1;
            let (verdict, value) = match promise.verdict(results) {
                Some((Verdict::Kept, value)) => {
                    kept += 1;
                    ("kept", promise.describe(value, results))
                }
                Some((Verdict::Missed, value)) => ("**missed**", promise.describe(value, results)),
                Some((Verdict::Undecided(busy), value)) => {
                    ("undecided", format!("busy {:.0} %: {}", busy * 100.0, promise.describe(value, results)))
                }
                None => ("not measured", String::new()),
            };
            let Scenario { name, .. } = scenario;
            rows.push_str(&format!("| {} | {value} | [{verdict}](#{name}) |\n", promise.promise));
        }
    }

    let about_threads = format!(
        "A promise about several threads has a verdict only if they, and the one thread in comparison, were busy for at \
         least {:.0} % of the time. Otherwise the load generator was the limit, and a server that waits for it wakes up \
         for fewer requests at a time, which makes each request more expensive. That affects the floor too, whose \
         processes share no memory; its value shows the machine's part.",
        BUSY_MIN * 100.0
    );
    format!(
        "\n## Verdicts\n\n{kept} of {count} performance promises are kept.\n\n| promise | measured | verdict |\n\
         |---|---|---|\n{rows}\n{}\n",
        wrapped(&about_threads)
    )
}

/// Returns one row for each load scenario, at its usual step: CPU time of the other servers as multiples of Cannery's.
fn comparison(scenarios: &Scenarios, all: &All) -> String {
    let (names, rows) = ratios(scenarios, all);
    let mut text = format!(
        "\n## CPU time compared with Cannery\n\nCPU time per request as a multiple of Cannery's: above 1, Cannery needs \
         less. One step of each workload;\nthe sections below have all steps.\n\n\
         ![CPU time as a multiple of Cannery's]({CHARTS}/ratios.svg)\n\n| | {} |\n|---|{}\n",
        names.join(" | "),
        "--:|".repeat(names.len())
    );
    for (scenario, step, values) in rows {
        let cells: Vec<_> = values.into_iter().map(|value| value.map_or(String::new(), precise)).collect();
        let Scenario { name, title, .. } = scenario;
        let step = if scenario.steps.len() > 1 {
            format!(", {}", step_label(scenario, &step))
        } else {
            String::new()
        };
        text.push_str(&format!("| [{title}](#{name}){step} | {} |\n", cells.join(" | ")));
    }
    text
}

/// A row of the comparison: a scenario, its usual step, and the ratio of each server.
type Ratios<'a> = (&'a Scenario, String, Vec<Option<f64>>);

fn ratios<'a>(scenarios: &'a Scenarios, all: &'a All) -> (Vec<&'a str>, Vec<Ratios<'a>>) {
    let is_compared =
        |scenario: &Scenario| scenario.measures == Kind::Load && scenario.group != Group::Cannery;
    let compared: Vec<_> = measured(scenarios, all).filter(|(scenario, _)| is_compared(scenario)).collect();
    let mut names = vec![FLOOR, "dummy"];
    for name in compared.iter().flat_map(|(_, results)| results.series()) {
        if name != OURS && !names.contains(&name) {
            names.push(name);
        }
    }

    let row = |(scenario, results): (&'a Scenario, &'a Results)| {
        let step = scenario.label(scenario.usual_step());
        let cpu_us = |name| results.get(&step, name, Metric::CpuUs);
        let values = names.iter().map(|name| Some(cpu_us(name)? / cpu_us(OURS)?)).collect();
        (scenario, step, values)
    };
    let rows = compared.into_iter().map(row).collect();
    (names, rows)
}

/// Returns everything about one scenario.
fn section(scenario: &Scenario, results: &Results) -> String {
    let Scenario { name, title, about, .. } = scenario;
    let measured = format!("Measured by `{}`", results.condition("command"));
    let date = format!("on {} at commit {}.", results.condition("date"), results.condition("commit"));
    let mut text = format!(
        "\n<a id=\"{name}\"></a>\n\n### {title}\n\n{}\n",
        wrapped(&format!("{about} {measured} {date}"))
    );

    if let Some((chart, label)) = chart_of(scenario, results) {
        text.push_str(&format!("\n![{label}]({CHARTS}/{chart}.svg)\n"));
    }
    if scenario.measures == Kind::Load {
        results.steps().into_iter().for_each(|step| text.push_str(&load_table(scenario, step, results)));
    } else {
        text.push_str(&table(results));
    }
    text
}

/// Returns the table of one step under load.
fn load_table(scenario: &Scenario, step: &str, results: &Results) -> String {
    const HIDDEN: [Metric; 6] =
        [Metric::CpuUs, Metric::CpuUsMin, Metric::CpuUsMax, Metric::P90Us, Metric::LongestUs, Metric::Errors];
    let mut metrics = results.metrics();
    metrics.retain(|metric| !HIDDEN.contains(metric));

    let labels: Vec<_> = metrics.iter().map(|metric| metric.label()).collect();
    let mut text = format!(
        "\n| {} | CPU µs | lowest to highest | × Cannery | {} |\n|---|{}\n",
        step_label(scenario, step),
        labels.join(" | "),
        "--:|".repeat(3 + metrics.len())
    );
    for series in results.series() {
        let get = |metric| results.get(step, series, metric);
        let Some(cpu_us) = get(Metric::CpuUs) else {
            let reason = if get(Metric::Errors).is_some() { "errors" } else { "–" };
            text.push_str(&format!("| {series} | {reason} |{}\n", " |".repeat(2 + metrics.len())));
            continue;
        };
        let range =
            [Metric::CpuUsMin, Metric::CpuUsMax].map(|metric| get(metric).map_or(String::new(), precise));
        let ratio =
            results.get(step, OURS, Metric::CpuUs).map_or(String::new(), |ours| precise(cpu_us / ours));
        let cells: Vec<_> = metrics.iter().map(|metric| cell(*metric, get(*metric))).collect();
        let range = range.join("–");
        text.push_str(&format!(
            "| {series} | {} | {range} | {ratio} | {} |\n",
            precise(cpu_us),
            cells.join(" | ")
        ));
    }
    text
}

/// Returns the table of a measurement other than load.
fn table(results: &Results) -> String {
    let mut metrics = results.metrics();
    metrics.retain(|metric| !matches!(metric, Metric::CpuUsMin | Metric::CpuUsMax));
    let labels: Vec<_> = metrics.iter().map(|metric| metric.label()).collect();
    let mut text = format!("\n| | | {} |\n|---|---|{}\n", labels.join(" | "), "--:|".repeat(metrics.len()));
    for row in &results.rows {
        let cells: Vec<_> =
            metrics.iter().map(|metric| cell(*metric, row.values.get(metric).copied())).collect();
        text.push_str(&format!("| {} | {} | {} |\n", row.step, row.series, cells.join(" | ")));
    }
    text
}

fn cell(metric: Metric, value: Option<f64>) -> String {
    match (metric, value) {
        (_, None) => String::new(),
        (Metric::Busy, Some(share)) => format!("{:.0} %", share * 100.0),
        (Metric::Calls | Metric::Ratio, Some(value)) => format!("{value:.3}"),
        (_, Some(value)) => precise(value),
    }
}

/// Returns a step with its unit, such as `64 connections`.
fn step_label(scenario: &Scenario, step: &str) -> String {
    let unit = match (scenario.compares_threads(), step) {
        (true, "1") => "thread",
        (true, _) => "threads",
        (false, _) => "connections",
    };
    format!("{} {unit}", with_commas(step))
}

/// Returns name and label of a scenario's chart, if the scenario has one.
fn chart_of(scenario: &Scenario, results: &Results) -> Option<(String, &'static str)> {
    let is_load = scenario.measures == Kind::Load;
    if is_load && results.steps().len() > 2 {
        return Some((format!("{}-cpu", scenario.name), "CPU time per request, µs"));
    }
    (scenario.name == "latency").then(|| ("latency".into(), "Latency at percentiles, µs"))
}

/// Draws all charts. Returns their names and contents.
fn draw_charts(scenarios: &Scenarios, all: &All) -> Result<Vec<(String, String)>> {
    let mut charts = Vec::new();
    for (scenario, results) in measured(scenarios, all) {
        let Some((name, label)) = chart_of(scenario, results) else { continue };
        let steps: Vec<_> = results.steps();
        let is_latency = scenario.name == "latency";
        let values = |series: &str| -> Vec<_> {
            if is_latency {
                return PERCENTILES.iter().map(|metric| results.get(steps[0], series, *metric)).collect();
            }
            steps.iter().map(|step| results.get(step, series, Metric::CpuUs)).collect()
        };
        let series =
            results.series().into_iter().map(|name| Series { name: name.into(), values: values(name) });
        let places: Vec<_> = if is_latency {
            PERCENTILES.iter().map(|metric| metric.label().trim_end_matches(" µs").to_owned()).collect()
        } else {
            steps.iter().map(|step| with_commas(step)).collect()
        };
        let unit = if scenario.compares_threads() { "threads" } else { "connections" };
        let title = if is_latency { label.to_owned() } else { format!("{label}, by {unit}") };
        charts.push((name, chart::lines(&title, &places, &series.collect::<Vec<_>>())?));
    }

    let (names, rows) = ratios(scenarios, all);
    if !rows.is_empty() {
        let places: Vec<_> = rows.iter().map(|(scenario, ..)| scenario.name.clone()).collect();
        let series = names.iter().enumerate().map(|(number, name)| Series {
            name: (*name).to_owned(),
            values: rows.iter().map(|(.., values)| values[number]).collect(),
        });
        let series: Vec<_> = series.collect();
        charts.push(("ratios".into(), chart::dots("CPU time as a multiple of Cannery's", &places, &series)?));
    }
    Ok(charts)
}

/// Formats a value with three significant digits, and integers with commas from 1,000 on.
pub(crate) fn precise(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        1000.0.. => with_commas(&format!("{value:.0}")),
        100.0.. => format!("{value:.0}"),
        _ if value.fract() == 0.0 && value >= 10.0 => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Inserts commas between thousands. Names that aren't numbers stay as they are.
fn with_commas(digits: &str) -> String {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.to_owned();
    }
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Breaks a text into lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= 120 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Extent;

    #[test]
    fn the_page_is_printed_from_the_tables() {
        let scenarios = Scenarios::load().unwrap();
        let all = read_all(&scenarios, &Extent::Whole.results().unwrap()).unwrap();
        let committed = Extent::Whole.page().unwrap().join("benchmarks.md");
        let is_same = fs::read_to_string(committed).unwrap() == page(&scenarios, &all);
        assert!(is_same, "print it again: cargo xtask bench page");
    }

    #[test]
    fn every_table_belongs_to_a_scenario() {
        let scenarios = Scenarios::load().unwrap();
        for entry in fs::read_dir(Extent::Whole.results().unwrap()).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let is_known = scenarios.all.iter().any(|scenario| format!("{}.tsv", scenario.name) == file);
            assert!(is_known, "{file}");
        }
    }

    #[test]
    fn values_have_three_significant_digits() {
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
