//! The pages about benchmarks, printed from the tables of results: `docs/benchmarks.md` with the comparisons that users
//! decide by, and next to the tables `README.md` with all promises, a page for each group of scenarios, and charts.
//!
//! Ratios come first: they hold on other machines too, absolute values don't.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::chart::{Chart, Series, Shape};
use crate::metric::{Metric, PERCENTILES, precise, with_commas};
use crate::promise::{BUSY_MIN, FLOOR, OURS, Verdict};
use crate::results::{Results, Row, distinct};
use crate::scenario::{Deciding, Group, Kind, Scenario, Scenarios};

/// The folder of charts, next to the tables.
const CHARTS: &str = "charts";

/// The text around the rows of `docs/benchmarks.md`, with placeholders such as `@DECIDING@`.
const PAGE: &str = include_str!("../templates/benchmarks.md");

/// The text around the tables of `bench/results/README.md`.
const OVERVIEW: &str = include_str!("../templates/results.md");

/// The pages of tables: their scenarios, files and headings.
const GROUPS: [(Group, &str, &str); 6] = [
    (Group::Clear, "without-tls.md", "HTTP/1.1 without TLS"),
    (Group::Secured, "tls-and-http2.md", "TLS and HTTP/2"),
    (Group::Http3, "http3.md", "HTTP/3"),
    (Group::Weather, "weather.md", "A weather forecast, computed for each request"),
    (Group::Library, "axum.md", "A site in a program of axum"),
    (Group::Cannery, "cannery.md", "Cannery alone"),
];

const PRINTED: &str = "<!-- Printed by `cargo xtask bench page` from the tables and bench/scenarios.toml. Change those instead. -->";

/// A ratio that is closer to 1 than this decides nothing.
const EQUAL: f64 = 0.05;

/// The scenarios that have results.
type All<'a> = Vec<(&'a Scenario, Results)>;

pub(crate) fn write(scenarios: &Scenarios, results: &Path, docs: &Path) -> Result<()> {
    fs::create_dir_all(results.join(CHARTS))?;
    fs::create_dir_all(docs)?;
    for (path, content) in files(scenarios, results, docs)? {
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    println!("written: {} and {}", docs.join("benchmarks.md").display(), results.join("README.md").display());
    Ok(())
}

/// Returns the pages and the charts.
fn files(scenarios: &Scenarios, results: &Path, docs: &Path) -> Result<Vec<(PathBuf, String)>> {
    let all = read_all(scenarios, results)?;
    let mut files = vec![
        (docs.join("benchmarks.md"), page(scenarios, &all)),
        (results.join("README.md"), overview(&all)),
    ];
    for (group, file, heading) in GROUPS {
        let members: Vec<_> = all.iter().filter(|(scenario, _)| scenario.group == group).collect();
        files.push((results.join(file), group_page(heading, &members)));
    }
    let charts = all.iter().filter_map(|(scenario, results)| scenario_chart(scenario, results));
    for chart in charts.chain([ratio_chart(&ratios(&all))]) {
        files.push((results.join(CHARTS).join(format!("{}.svg", chart.name)), chart.draw()?));
    }
    Ok(files)
}

fn read_all<'a>(scenarios: &'a Scenarios, folder: &Path) -> Result<All<'a>> {
    let tables =
        scenarios.all.iter().map(|scenario| (scenario, folder.join(format!("{}.tsv", scenario.name))));
    let existing = tables.filter(|(_, path)| path.is_file());
    existing.map(|(scenario, path)| Ok((scenario, Results::read(&path)?))).collect()
}

/// Returns `docs/benchmarks.md`.
fn page(scenarios: &Scenarios, all: &All<'_>) -> String {
    let rows = scenarios.deciding.iter().filter_map(|deciding| deciding_row(deciding, all));
    let (kept, count) = count(all);
    PAGE.replace("@DECIDING@", &table(&["workload", "peer", "peer / Cannery", "verdict"], 4, rows))
        .replace("@KEPT@", &kept.to_string())
        .replace("@PROMISES@", &count.to_string())
}

/// Returns the row of a comparison, or `None` if a value is missing.
fn deciding_row(deciding: &Deciding, all: &All<'_>) -> Option<Vec<String>> {
    let Deciding { row, scenario, step, peer, metric } = deciding;
    let (scenario, results) = all.iter().find(|(other, _)| other.name == *scenario)?;
    let value = |series| results.get(step, series, *metric);
    let ratio = value(peer)? / value(OURS)?;
    let name = peer.trim_end_matches("-http3");

    let better = if (ratio - 1.0).abs() < EQUAL {
        "equal".to_owned()
    } else if ratio > 1.0 {
        "Cannery".to_owned()
    } else {
        format!("**{name}**")
    };
    let required = scenario.promises.iter().find_map(|promise| promise.required_ratio(step, *metric, peer));
    let promised = match required {
        Some(required) => {
            let bound =
                if required == 1.0 { "no worse".into() } else { format!("at least {}", precise(required)) };
            format!("; {bound} promised{}", if ratio >= required { "" } else { ", **missed**" })
        }
        None => String::new(),
    };
    let link = format!("[{row}](../bench/results/{})", link(scenario));
    Some(vec![link, name.to_owned(), precise(ratio), format!("{better}{promised}")])
}

/// Returns a scenario's file and heading, next to the tables.
fn link(scenario: &Scenario) -> String {
    let (_, file, _) =
        GROUPS.iter().find(|(group, ..)| *group == scenario.group).expect("every group has a page");
    format!("{file}#{}", scenario.name)
}

/// Returns `bench/results/README.md`.
fn overview(all: &All<'_>) -> String {
    let contents: String =
        GROUPS.iter().map(|(_, file, heading)| format!("- [{heading}]({file})\n")).collect();
    OVERVIEW
        .replace("@CONTENTS@", &contents)
        .replace("@VERDICTS@", &verdicts(all))
        .replace("@BUSY_MIN@", &format!("{:.0}", BUSY_MIN * 100.0))
        .replace("@COMPARISON@", &comparison(&ratios(all)))
}

/// Returns the page of a group of scenarios.
fn group_page(heading: &str, members: &[&(&Scenario, Results)]) -> String {
    let sections: String = members.iter().map(|(scenario, results)| section(scenario, results)).collect();
    format!(
        "# Benchmarks: {heading}\n\n{PRINTED}\n\nThe [overview](README.md) explains servers and columns, and has the \
         verdicts on all promises.\n{sections}\n## Machines and versions\n\n```text\n{}\n```\n",
        machines(members)
    )
}

/// Returns machines and versions, each line once.
fn machines(members: &[&(&Scenario, Results)]) -> String {
    let lines = members.iter().flat_map(|(_, results)| &results.conditions);
    let shared = lines.filter(|line| line.starts_with("machine: ") || line.starts_with("version: "));
    shared.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("\n")
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
fn verdicts(all: &All<'_>) -> String {
    let mut rows = Vec::new();
    for (scenario, results) in all {
        for promise in &scenario.promises {
            let (verdict, measured) = promise.verdict(results);
            let label = match verdict {
                Verdict::Kept => "kept",
                Verdict::Missed => "**missed**",
                Verdict::Undecided => "undecided",
                Verdict::NotMeasured => "not measured",
            };
            rows.push(vec![promise.promise.clone(), measured, format!("[{label}]({})", link(scenario))]);
        }
    }
    let (kept, count) = count(all);
    let table = table(&["promise", "measured", "verdict"], 3, rows);
    format!("{kept} of {count} performance promises are kept.\n\n{table}")
}

/// Returns the number of kept promises, and of all.
fn count(all: &All<'_>) -> (usize, usize) {
    let promises = || {
        all.iter()
            .flat_map(|(scenario, results)| scenario.promises.iter().map(move |promise| (promise, results)))
    };
    let kept = promises().filter(|(promise, results)| promise.verdict(results).0 == Verdict::Kept).count();
    (kept, promises().count())
}

/// CPU time of the other servers as multiples of Cannery's.
struct Ratios<'a> {
    servers: Vec<&'a str>,
    /// A scenario, its usual step, and the ratio of each server.
    rows: Vec<(&'a Scenario, String, Vec<Option<f64>>)>,
}

/// Returns one row for each load scenario.
fn ratios<'a>(all: &'a All<'_>) -> Ratios<'a> {
    let is_compared = |scenario: &Scenario| {
        scenario.measures == Kind::Load
            && matches!(scenario.group, Group::Clear | Group::Secured | Group::Http3)
    };
    let compared: Vec<_> = all.iter().filter(|(scenario, _)| is_compared(scenario)).collect();
    let others = compared.iter().flat_map(|(_, results)| results.series());
    let servers = distinct([FLOOR, "dummy"].into_iter().chain(others.filter(|name| *name != OURS)));
    let row = |(scenario, results): &'a (&Scenario, Results)| {
        let step = scenario.label(scenario.usual_step());
        let cpu_us = |name| results.get(&step, name, Metric::CpuUs);
        let values = servers.iter().map(|name| Some(cpu_us(name)? / cpu_us(OURS)?)).collect();
        (*scenario, step, values)
    };
    let rows = compared.into_iter().map(row).collect();
    Ratios { servers, rows }
}

/// Returns the table and the link to the chart of all ratios.
fn comparison(Ratios { servers, rows }: &Ratios<'_>) -> String {
    let rows = rows.iter().map(|(scenario, step, values)| {
        let mut link = format!("[{}]({})", scenario.title, link(scenario));
        if scenario.steps.len() > 1 {
            link.push_str(&format!(", {}", step_label(scenario, step)));
        }
        let values = values.iter().map(|value| value.map_or(String::new(), precise));
        [link].into_iter().chain(values).collect()
    });
    let table = table(&[&[""], servers.as_slice()].concat(), 1, rows);
    format!("![CPU time as a multiple of Cannery's]({CHARTS}/ratios.svg)\n\n{table}")
}

fn ratio_chart(Ratios { servers, rows }: &Ratios<'_>) -> Chart {
    let series = servers.iter().enumerate().map(|(number, name)| Series {
        name: (*name).to_owned(),
        values: rows.iter().map(|(.., values)| values[number]).collect(),
    });
    Chart {
        name: "ratios".into(),
        title: "CPU time as a multiple of Cannery's".into(),
        places: rows.iter().map(|(scenario, ..)| scenario.name.clone()).collect(),
        series: series.collect(),
        shape: Shape::Dots,
    }
}

/// Returns everything about one scenario.
fn section(scenario: &Scenario, results: &Results) -> String {
    let Scenario { name, title, about, .. } = scenario;
    let [command, date, commit] = ["command", "date", "commit"].map(|key| results.condition(key));
    let mut text = format!(
        "\n<a id=\"{name}\"></a>\n\n## {title}\n\n{}\nMeasured by `{command}` on {date} at commit {commit}.\n",
        about.trim_end()
    );

    if let Some(Chart { name, title, .. }) = scenario_chart(scenario, results) {
        let label = title.split(", by").next().unwrap_or_default();
        text.push_str(&format!("\n![{label}]({CHARTS}/{name}.svg)\n"));
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

/// Returns a step with its unit, such as `64 connections`, or its name.
fn step_label(scenario: &Scenario, step: &str) -> String {
    if scenario.steps.iter().any(|other| other.name.as_deref() == Some(step)) {
        return step.to_owned();
    }
    let unit = match (scenario.compares_threads(), step) {
        (true, "1") => "thread",
        (true, _) => "threads",
        (false, _) => "connections",
    };
    format!("{} {unit}", with_commas(step))
}

/// Returns the chart of a scenario, if it has one: latency by percentile, or CPU time by step.
fn scenario_chart(scenario: &Scenario, results: &Results) -> Option<Chart> {
    let steps = results.steps();
    let series = |values: &dyn Fn(&str) -> Vec<Option<f64>>| {
        let series = results.series().into_iter();
        series.map(|name| Series { name: name.into(), values: values(name) }).collect()
    };
    if scenario.name == "latency" {
        let label = |metric: &Metric| metric.label().trim_end_matches(" µs").to_owned();
        return Some(Chart {
            name: "latency".into(),
            title: "Latency at percentiles, µs".into(),
            places: PERCENTILES.iter().map(label).collect(),
            series: series(&|name| PERCENTILES.map(|metric| results.get(steps[0], name, metric)).to_vec()),
            shape: Shape::Lines,
        });
    }

    let unit = if scenario.compares_threads() { "threads" } else { "connections" };
    (scenario.measures == Kind::Load && steps.len() > 2).then(|| Chart {
        name: format!("{}-cpu", scenario.name),
        title: format!("CPU time per request, µs, by {unit}"),
        places: steps.iter().map(|step| with_commas(step)).collect(),
        series: series(&|name| steps.iter().map(|step| results.get(step, name, Metric::CpuUs)).collect()),
        shape: Shape::Lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;

    #[test]
    fn the_page_is_printed_from_the_tables() {
        let scenarios = Scenarios::load().unwrap();
        let (results, docs) = (project::folder().join("results"), project::root().join("docs"));
        for (path, content) in files(&scenarios, &results, &docs).unwrap() {
            let committed = fs::read_to_string(&path).unwrap();
            assert!(committed == content, "print {} again: cargo xtask bench page", path.display());
        }
    }

    #[test]
    fn the_page_for_users_has_all_its_rows() {
        let scenarios = Scenarios::load().unwrap();
        let all = read_all(&scenarios, &project::folder().join("results")).unwrap();
        for deciding in &scenarios.deciding {
            assert!(deciding_row(deciding, &all).is_some(), "{}: {}", deciding.scenario, deciding.peer);
        }
    }

    #[test]
    fn every_table_belongs_to_a_scenario() {
        let scenarios = Scenarios::load().unwrap();
        for entry in fs::read_dir(project::folder().join("results")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if !file.ends_with(".tsv") {
                continue;
            }
            let is_known = scenarios.all.iter().any(|scenario| format!("{}.tsv", scenario.name) == file);
            assert!(is_known, "{file}");
        }
    }
}
