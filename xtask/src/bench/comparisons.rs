//! `cargo xtask bench` without a name of the older benchmarks: one scenario or all of them, with everybody who is
//! there, and what they leave in files.

use std::path::PathBuf;

use super::compare::Comparison;
use super::contenders::{self, Contender};
use super::figures::{Figures, Quantity};
use super::report::Report;
use super::scenario::{Extent, Point, Scenario};
use super::{Plan, machine, publish};
use crate::error::Error;
use crate::project;

/// Measures some scenarios, each with files of its own.
pub(crate) fn run(scenarios: &[&Scenario], plan: Plan, extent: Extent) -> Result<(), Error> {
    machine::allow_descriptors_for_all()?;
    let mut failed = 0;
    for scenario in scenarios {
        failed += measure(scenario, plan, extent)?;
    }
    publish::page(&folder(extent), &page_folder(extent))?;
    if failed == 0 {
        return Ok(());
    }
    Err(Error::Unexpected {
        what: "the comparisons".into(),
        expected: "no error of anybody".into(),
        got: format!("{failed} that failed at a step; the lines above say who, where and why"),
    })
}

/// Where figures go: those of a quick run say nothing, and are not kept with the others.
fn folder(extent: Extent) -> PathBuf {
    match extent {
        Extent::Whole => project::root().join("bench/results"),
        Extent::Quick => project::outside().join("quick"),
    }
}

/// Where the page goes that shows them.
fn page_folder(extent: Extent) -> PathBuf {
    match extent {
        Extent::Whole => project::root().join("docs"),
        Extent::Quick => folder(extent),
    }
}

/// Returns how many contenders failed at some step.
fn measure(scenario: &Scenario, plan: Plan, extent: Extent) -> Result<usize, Error> {
    let (present, missing) = contenders::present(scenario.contenders);
    let mut report = Report::new(scenario.name, &command(scenario, plan, extent), &versions(&present)?);
    if !missing.is_empty() {
        report.line(&format!("left out: {}", missing.join(", ")));
    }
    let site = (scenario.site)(extent)?;
    let comparison = Comparison::prepare(scenario, &present, &site)?;
    let mut figures = Figures::default();
    for point in points(scenario, extent) {
        let label = scenario.label(point);
        let Some(placement) = machine::placement(machine::processors(), point.threads) else {
            report.line(&format!("{label}: left out, the machine has too few processors"));
            continue;
        };
        report.line(&format!(
            "{} connections, {} threads: server on {}, generator on {}",
            point.connections, point.threads, placement.server, placement.generator
        ));
        let of_point = comparison.measure(point, &placement, plan, &mut report)?;
        say_medians(scenario.name, &label, &of_point, &mut report);
        figures.0.extend(of_point.0);
    }
    figures.save(&folder(extent), scenario.name, report.opening())?;
    report.save_in(&folder(extent))?;
    Ok(figures.0.iter().filter(|figure| figure.quantity == Quantity::Failures).count())
}

/// In a quick run one step stands for all: the usual number of connections.
fn points(scenario: &Scenario, extent: Extent) -> &'static [Point] {
    const USUAL: u32 = 64;
    match extent {
        Extent::Whole => scenario.points,
        Extent::Quick => {
            let place = scenario.points.iter().position(|point| point.connections == USUAL).unwrap_or(0);
            &scenario.points[place..=place]
        }
    }
}

fn command(scenario: &Scenario, plan: Plan, extent: Extent) -> String {
    let Plan { rounds, seconds, .. } = plan;
    match extent {
        Extent::Whole => format!("cargo xtask bench {} --rounds {rounds} --seconds {seconds}", scenario.name),
        Extent::Quick => format!("cargo xtask bench {} --quick", scenario.name),
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
    report.line("medians:   us a request   requests/s   p99 us");
    for contender in figures.contenders(scenario) {
        let of = |quantity| figures.median(scenario, point, contender, quantity).unwrap_or(f64::NAN);
        report.line(&format!(
            "{contender:<9} {:>13.3} {:>12.0} {:>8.0}",
            of(Quantity::ProcessorUs),
            of(Quantity::RequestsPerSecond),
            of(Quantity::P99Us)
        ));
    }
}
