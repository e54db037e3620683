//! `docs/benchmarks.md` and its charts, printed from the tables of results.
//!
//! Ratios come first: they hold on other machines too, absolute values don't.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::chart::{self, Series};
use crate::metric::{Metric, PERCENTILES, precise, with_commas};
use crate::promise::{BUSY_MIN, FLOOR, OURS, Verdict};
use crate::results::{Results, Row};
use crate::scenario::{Group, Kind, Scenario, Scenarios};

/// The folder of charts, next to the page.
const CHARTS: &str = "benchmarks";

/// The text around the tables, with placeholders such as `@VERDICTS@`.
const TEMPLATE: &str = include_str!("../page.md");

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
    let groups = [
        (Group::Clear, "Without TLS"),
        (Group::Secured, "TLS and HTTP/2"),
        (Group::Http3, "HTTP/3"),
        (Group::Cannery, "Cannery alone"),
    ];
    let mut sections = String::new();
    for (group, heading) in groups {
        let mut members = measured(scenarios, all).filter(|(scenario, _)| scenario.group == group).peekable();
        if members.peek().is_some() {
            sections.push_str(&format!("\n## {heading}\n"));
        }
        members.for_each(|(scenario, results)| sections.push_str(&section(scenario, results)));
    }

    TEMPLATE
        .replace("@VERDICTS@", &verdicts(scenarios, all))
        .replace("@BUSY_MIN@", &format!("{:.0}", BUSY_MIN * 100.0))
        .replace("@COMPARISON@", &comparison(scenarios, all))
        .replace("@MACHINES@", &machines(all).join("\n"))
        .replace("@SCENARIOS@", &sections)
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

/// Returns a Markdown table, of which the first `texts` columns are text and the others numbers.
fn table(header: &[&str], texts: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let names: Vec<_> = header.iter().map(|name| (*name).to_owned()).collect();
    let numbers = header.len() - texts;
    let mut text = line(&names) + "|" + &"---|".repeat(texts) + &"--:|".repeat(numbers) + "\n";
    rows.into_iter().for_each(|cells| text.push_str(&line(&cells)));
    text
}

/// Returns the table of all promises, after their number.
fn verdicts(scenarios: &Scenarios, all: &All) -> String {
    let mut rows = Vec::new();
    let mut kept = 0;
    for (scenario, results) in measured(scenarios, all) {
        for promise in &scenario.promises {
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
            rows.push(vec![promise.promise.clone(), value, format!("[{verdict}](#{})", scenario.name)]);
        }
    }
    let count = rows.len();
    let table = table(&["promise", "measured", "verdict"], 3, rows);
    format!("{kept} of {count} performance promises are kept.\n\n{table}")
}

/// Returns one row for each load scenario, at its usual step: CPU time of the other servers as multiples of Cannery's.
fn comparison(scenarios: &Scenarios, all: &All) -> String {
    let (names, rows) = ratios(scenarios, all);
    let rows = rows.into_iter().map(|(scenario, step, values)| {
        let mut link = format!("[{}](#{})", scenario.title, scenario.name);
        if scenario.steps.len() > 1 {
            link.push_str(&format!(", {}", step_label(scenario, &step)));
        }
        let values = values.into_iter().map(|value| value.map_or(String::new(), precise));
        [link].into_iter().chain(values).collect()
    });
    let table = table(&[&[""], names.as_slice()].concat(), 1, rows);
    format!("![CPU time as a multiple of Cannery's]({CHARTS}/ratios.svg)\n\n{table}")
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
    let [command, date, commit] = ["command", "date", "commit"].map(|key| results.condition(key));
    let mut text = format!(
        "\n<a id=\"{name}\"></a>\n\n### {title}\n\n{}\nMeasured by `{command}` on {date} at commit {commit}.\n",
        about.trim_end()
    );

    if let Some((chart, label)) = chart_of(scenario, results) {
        text.push_str(&format!("\n![{label}]({CHARTS}/{chart}.svg)\n"));
    }
    if scenario.measures == Kind::Load {
        let tables = results.steps().into_iter().map(|step| load_table(scenario, step, results));
        tables.for_each(|table| text.push_str(&format!("\n{table}")));
    } else {
        text.push_str(&format!("\n{}", plain_table(results)));
    }
    text
}

/// Returns the table of one step under load.
fn load_table(scenario: &Scenario, step: &str, results: &Results) -> String {
    const HIDDEN: [Metric; 6] =
        [Metric::CpuUs, Metric::CpuUsMin, Metric::CpuUsMax, Metric::P90Us, Metric::LongestUs, Metric::Errors];
    let mut metrics = results.metrics();
    metrics.retain(|metric| !HIDDEN.contains(metric));

    let step_label = step_label(scenario, step);
    let mut header = vec![step_label.as_str(), "CPU µs", "lowest to highest", "× Cannery"];
    header.extend(metrics.iter().map(|metric| metric.label()));
    let columns = header.len();

    let row = |series: &str| {
        let get = |metric| results.get(step, series, metric);
        let Some(cpu_us) = get(Metric::CpuUs) else {
            let reason = if get(Metric::Errors).is_some() { "errors" } else { "–" };
            let mut cells = vec![series.to_owned(), reason.to_owned()];
            cells.resize(columns, String::new());
            return cells;
        };
        let [lowest, highest] =
            [Metric::CpuUsMin, Metric::CpuUsMax].map(|metric| get(metric).map_or(String::new(), precise));
        let ours = results.get(step, OURS, Metric::CpuUs);
        let ratio = ours.map_or(String::new(), |ours| precise(cpu_us / ours));
        let mut cells = vec![series.to_owned(), precise(cpu_us), format!("{lowest}–{highest}"), ratio];
        cells.extend(metrics.iter().map(|metric| cell(*metric, get(*metric))));
        cells
    };
    table(&header, 1, results.series().into_iter().map(row))
}

/// Returns the table of a measurement other than load.
fn plain_table(results: &Results) -> String {
    let mut metrics = results.metrics();
    metrics.retain(|metric| !matches!(metric, Metric::CpuUsMin | Metric::CpuUsMax));
    let mut header = vec!["", ""];
    header.extend(metrics.iter().map(|metric| metric.label()));

    let row = |Row { step, series, values, .. }: &Row| {
        let values = metrics.iter().map(|metric| cell(*metric, values.get(metric).copied()));
        [step.clone(), series.clone()].into_iter().chain(values).collect()
    };
    table(&header, 2, results.rows.iter().map(row))
}

fn cell(metric: Metric, value: Option<f64>) -> String {
    value.map_or(String::new(), |value| metric.format(value))
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
}
