//! `cargo xtask bench` without a name of the older benchmarks: one scenario or all of them, with everybody who is
//! there, and what they leave in files.

use std::path::PathBuf;

use super::compare::{Comparison, Flight};
use super::contenders::{self, Contender};
use super::figures::{Figures, Quantity};
use super::measurements::Measurement;
use super::report::Report;
use super::scenario::{Extent, Point, Scenario};
use super::{Plan, machine, publish};
use crate::error::Error;
use crate::project;

/// Measures some scenarios under load and some things without, each with files of its own, and writes the page anew.
pub(crate) fn run(
    scenarios: &[&Scenario],
    measurements: &[&Measurement],
    plan: Plan,
    extent: Extent,
) -> Result<(), Error> {
    machine::allow_descriptors_for_all()?;
    let mut failed = 0;
    for scenario in scenarios {
        failed += compare(scenario, plan, extent)?;
    }
    for measurement in measurements {
        failed += measure(measurement, plan, extent)?;
    }
    write_page(extent)?;
    if failed == 0 {
        return Ok(());
    }
    Err(Error::Unexpected {
        what: "the comparisons".into(),
        expected: "no error of anybody".into(),
        got: format!("{failed} that failed at a step; the lines above say who, where and why"),
    })
}

/// Writes the page anew, of the figures that there are.
pub(crate) fn write_page(extent: Extent) -> Result<(), Error> {
    publish::page(&folder(extent), &page_folder(extent))
}

/// Where figures go: those of a part say little, and are not kept with the others.
fn folder(extent: Extent) -> PathBuf {
    match extent {
        Extent::Whole => project::root().join("bench/results"),
        Extent::Step(_) => project::outside().join("step"),
        Extent::Quick => project::outside().join("quick"),
    }
}

/// Where the page goes that shows them.
fn page_folder(extent: Extent) -> PathBuf {
    match extent {
        Extent::Whole => project::root().join("docs"),
        Extent::Step(_) | Extent::Quick => folder(extent),
    }
}

/// Returns how many contenders failed at some step.
fn compare(scenario: &Scenario, plan: Plan, extent: Extent) -> Result<usize, Error> {
    let (present, mut report) = open(scenario.name, scenario.contenders, plan, extent)?;
    let site = (scenario.site)(extent)?;
    let comparison = Comparison::prepare(scenario, &present, &site)?;
    let mut flights = Vec::new();
    for points in points(scenario, extent)?.chunks(comparison.steps_together()) {
        let threads = points[0].threads;
        let labels: Vec<_> = points.iter().map(|point| scenario.label(point)).collect();
        let Some(placement) = machine::placement(machine::processors(), threads) else {
            report.line(&format!("{}: left out, the machine has too few processors", labels.join(", ")));
            continue;
        };
        let connections: Vec<_> = points.iter().map(|point| point.connections.to_string()).collect();
        report.line(&format!(
            "{} connections, {threads} threads: server on {}, generator on {}",
            connections.join(", "),
            placement.server,
            placement.generator
        ));
        flights.push(Flight { points: points.to_vec(), placement });
    }
    // What is compared between steps is measured in turn, so that the machine's moods fall on all of them; else each step
    // is brought to its end, so that its contenders are as close together as can be.
    let together = if scenario.is_across_threads() { flights.len() } else { 1 };
    let mut figures = Figures::default();
    for flights in flights.chunks(together.max(1)) {
        let found = comparison.measure(flights, plan, &mut report)?;
        for point in flights.iter().flat_map(|flight| &flight.points) {
            say_medians(scenario.name, &scenario.label(point), &found, &mut report);
        }
        figures.0.extend(found.0);
    }
    figures.save(&folder(extent), scenario.name, report.opening())?;
    report.save_in(&folder(extent))?;
    Ok(failures(&figures))
}

fn failures(figures: &Figures) -> usize {
    figures.0.iter().filter(|figure| figure.quantity == Quantity::Failures).count()
}

/// Returns how many failed.
fn measure(measurement: &Measurement, plan: Plan, extent: Extent) -> Result<usize, Error> {
    let (present, mut report) = open(measurement.name, measurement.contenders, plan, extent)?;
    let figures = (measurement.run)(&present, plan, extent, &mut report)?;
    figures.save(&folder(extent), measurement.name, report.opening())?;
    report.save_in(&folder(extent))?;
    Ok(failures(&figures))
}

/// Who is there of those who are wanted, and a report that says so.
fn open(
    name: &'static str,
    wanted: &[Contender],
    plan: Plan,
    extent: Extent,
) -> Result<(Vec<Contender>, Report), Error> {
    let (present, missing) = contenders::present(wanted);
    let mut report = Report::new(name, &command(name, plan, extent), &versions(&present)?);
    if !missing.is_empty() {
        report.line(&format!("left out: {}", missing.join(", ")));
    }
    Ok((present, report))
}

/// The steps to measure. In a quick run one stands for all: the usual number of connections.
fn points(scenario: &Scenario, extent: Extent) -> Result<&'static [Point], Error> {
    const USUAL: u32 = 64;
    let place = match extent {
        Extent::Whole => return Ok(scenario.points),
        Extent::Step(step) => {
            let place = scenario.points.iter().position(|point| scenario.label(point) == step.to_string());
            place.ok_or_else(|| Error::Usage { problem: format!("{} has no step {step}", scenario.name) })?
        }
        Extent::Quick => scenario.points.iter().position(|point| point.connections == USUAL).unwrap_or(0),
    };
    Ok(&scenario.points[place..=place])
}

fn command(name: &str, plan: Plan, extent: Extent) -> String {
    let Plan { rounds, seconds, .. } = plan;
    match extent {
        Extent::Whole => format!("cargo xtask bench {name} --rounds {rounds} --seconds {seconds}"),
        Extent::Step(step) => {
            format!("cargo xtask bench {name} --step {step} --rounds {rounds} --seconds {seconds}")
        }
        Extent::Quick => format!("cargo xtask bench {name} --quick"),
    }
}

fn versions(contenders: &[Contender]) -> Result<Vec<String>, Error> {
    let mut versions = contenders.iter().map(Contender::version).collect::<Result<Vec<_>, _>>()?;
    versions.extend(["rustc", "wrk"].map(|program| machine::version(program, "--version")));
    versions.dedup();
    Ok(versions)
}

/// What the page will say, for those who watch.
fn say_medians(scenario: &str, point: &str, figures: &Figures, report: &mut Report) {
    report.line("medians:                us a request   requests/s   p99 us");
    for contender in figures.contenders(scenario) {
        let of = |quantity| figures.median(scenario, point, contender, quantity).unwrap_or(f64::NAN);
        report.line(&format!(
            "{point:>5} {contender:<16} {:>13.3} {:>12.0} {:>8.0}",
            of(Quantity::ProcessorUs),
            of(Quantity::RequestsPerSecond),
            of(Quantity::P99Us)
        ));
    }
}
