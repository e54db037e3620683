//! Benchmarks: measures Cannery and other web servers, writes tables of medians, and prints `docs/benchmarks.md`.
//!
//! `cargo xtask bench` starts this program. Load goes to 127.0.0.1 only.

#![forbid(unsafe_code)]

// The data: scenarios with their promises, servers, results.
mod metric;
mod promise;
mod results;
mod scenario;
mod servers;

// The ground: machine, programs, processes.
mod certificates;
mod machine;
mod namespace;
mod newer_debian;
mod process;
mod programs;
mod project;

// Sites and their contents.
mod contents;
mod site;

// Measuring: checks, load, rounds.
mod check;
mod compare;
mod http;
mod latency;
mod load;
mod measure;
mod plan;

// The page.
mod chart;
mod page;

use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Parser;

use crate::measure::Context;
use crate::plan::{Extent, Plan};
use crate::programs::Availability;
use crate::results::Results;
use crate::scenario::{Group, Scenario, Scenarios};
use crate::servers::{Servers, Spec};
use crate::site::Site;

/// Measures Cannery and other web servers, and writes docs/benchmarks.md.
///
/// Without a NAME, all comparisons with other servers run, which takes an hour and a half.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// A scenario of bench/scenarios.toml; `clear`, `secured` or `http3` for all comparisons without TLS, with TLS or over
    /// HTTP/3; `cannery` for all measurements of Cannery alone; `page` to write the page without measuring
    name: Option<String>,
    /// Runs of each server; the median counts [default: 5]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Seconds of load in each run [default: 3, or the scenario's]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Only the step with this number of connections, or threads
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    step: Option<u32>,
    /// One short run each, which only shows that everything works
    #[arg(long)]
    quick: bool,
}

impl Arguments {
    /// Returns the arguments that measure one scenario to the same extent.
    fn of_scenario(&self, name: &str) -> Vec<String> {
        let mut arguments = vec![name.to_owned()];
        arguments.extend(self.rounds.map(|rounds| format!("--rounds={rounds}")));
        arguments.extend(self.seconds.map(|seconds| format!("--seconds={seconds}")));
        arguments.extend(self.step.map(|step| format!("--step={step}")));
        arguments.extend(self.quick.then(|| "--quick".to_owned()));
        arguments
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let scenarios = Scenarios::load()?;
    let servers = Servers::load()?;
    let extent = match arguments.step {
        Some(step) => Extent::Step(step),
        None if arguments.quick => Extent::Quick,
        None => Extent::Whole,
    };

    let mut failures = 0;
    if arguments.name.as_deref() != Some("page") {
        programs::install_tools(&servers.tools)?;
        machine::raise_descriptor_limit();
        for scenario in select(&scenarios, arguments.name.as_deref())? {
            if scenario.group == Group::Http3 && !namespace::is_inside() {
                // Packages are installed here, because the namespace has no network.
                prepare(&servers, scenario)?;
                failures += usize::from(namespace::run(&arguments.of_scenario(&scenario.name)).is_err());
                continue;
            }
            println!("==> {}: {}", scenario.name, scenario.title);
            let plan = Plan::new(scenario, extent, arguments.rounds, arguments.seconds);
            let results = measure(&scenarios, &servers, scenario, plan)?;
            results.write(&extent.results()?.join(format!("{}.tsv", scenario.name)))?;
            failures += results.failures();
        }
    }

    page::write(&scenarios, &extent.results()?, &extent.page()?)?;
    ensure!(failures == 0, "{failures} failures; the lines above have the servers and the reasons");
    Ok(())
}

/// Installs the servers of a scenario, and builds our programs.
fn prepare(servers: &Servers, scenario: &Scenario) -> Result<()> {
    for spec in servers.resolve(&scenario.servers)? {
        spec.install();
    }
    ["cannery-server", "cannery-archiver"].into_iter().try_for_each(|name| programs::binary(name).map(drop))
}

/// Returns the scenarios of a name.
fn select<'a>(scenarios: &'a Scenarios, name: Option<&str>) -> Result<Vec<&'a Scenario>> {
    let is_selected = |scenario: &&Scenario| match name {
        None => scenario.group != Group::Cannery,
        Some("clear") => scenario.group == Group::Clear,
        Some("secured") => scenario.group == Group::Secured,
        Some("http3") => scenario.group == Group::Http3,
        Some("cannery") => scenario.group == Group::Cannery,
        Some(name) => scenario.name == name,
    };
    let selected: Vec<_> = scenarios.all.iter().filter(is_selected).collect();
    let names: Vec<_> = scenarios.all.iter().map(|scenario| scenario.name.as_str()).collect();
    ensure!(!selected.is_empty(), "there is no such scenario; there are {}", names.join(", "));
    Ok(selected)
}

/// Measures a scenario and returns its table with the conditions.
fn measure(scenarios: &Scenarios, servers: &Servers, scenario: &Scenario, plan: Plan) -> Result<Results> {
    let is_present = |spec: &Spec<'_>| spec.install() == Availability::Present;
    let (present, missing): (Vec<_>, Vec<_>) =
        servers.resolve(&scenario.servers)?.into_iter().partition(is_present);
    let site = scenarios.sites.get(&scenario.site);
    let site = site.map(|spec| Site::prepare(&scenario.site, spec, plan.is_quick())).transpose()?;

    let site = site.as_ref();
    let samples = measure::run(&Context { scenarios, scenario, servers, present: &present, site, plan })?;
    let conditions = conditions(scenario, plan, &present, &missing)?;
    Ok(Results { conditions, rows: samples.into_rows() })
}

/// Returns command, date, commit, machine and versions.
fn conditions(
    scenario: &Scenario,
    plan: Plan,
    present: &[Spec<'_>],
    missing: &[Spec<'_>],
) -> Result<Vec<String>> {
    let date = project::output(Command::new("date").args(["--utc", "+%F"]))?;
    let mut conditions = vec![
        format!("command: {}", plan.command(scenario)),
        format!("date: {}", date.trim()),
        format!("commit: {}", programs::commit()?),
        format!("machine: {}", machine::description()),
    ];
    let mut versions = present.iter().map(Spec::version).collect::<Result<Vec<_>>>()?;
    let others = ["rustc", "wrk"].map(|program| machine::version(Command::new(program).arg("--version")));
    versions.extend(others);
    versions.dedup();
    conditions.extend(versions.into_iter().map(|version| format!("version: {version}")));
    conditions.extend(missing.iter().map(|spec| format!("left out: {}", spec.name)));
    Ok(conditions)
}
