//! Benchmarks: measures Cannery and other web servers, writes tables of medians, and prints the pages about them.
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
mod resources;

// Sites and their contents.
mod contents;
mod site;

// Measuring: checks, load, rounds.
mod check;
mod forecast;
mod http;
mod latency;
mod load;
mod measure;
mod plan;
mod training;

// The page.
mod chart;
mod page;

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use time::OffsetDateTime;

use crate::measure::Context;
use crate::plan::Plan;
use crate::results::Results;
use crate::scenario::{Group, Scenario, Scenarios};
use crate::servers::{Servers, Spec};
use crate::site::Site;

/// Measures Cannery and other web servers, and writes docs/benchmarks.md and bench/results.
///
/// Without a NAME, all comparisons with other servers run, which takes an hour and a half.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// A scenario of bench/scenarios.toml; `clear`, `secured` or `http3` for all comparisons without TLS, with TLS or over
    /// HTTP/3; `weather` or `library` for all with other libraries; `cannery` for all measurements of Cannery alone; `page` to write the page without measuring
    name: Option<String>,
    /// Measure nothing: short runs of Cannery, which record a profile if it was built for that, as `cargo xtask pgo` does
    #[arg(long = "train", conflicts_with_all = ["rounds", "seconds", "step", "is_quick"])]
    is_training: bool,
    #[command(flatten)]
    plan: Plan,
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
    let plan = arguments.plan;
    let mut failures = 0;
    if arguments.name.as_deref() != Some("page") {
        programs::install_tools(&servers.tools)?;
        programs::build_cannery()?;
        machine::raise_descriptor_limit();
        if arguments.is_training {
            return training::run(&scenarios, &servers, arguments.name.as_deref());
        }
        for scenario in select(&scenarios, arguments.name.as_ref())? {
            let (present, missing) = install(&servers, scenario)?;
            if scenario.group == Group::Http3 && !namespace::is_inside() {
                // Packages and programs are there now, because the namespace has no network.
                let options =
                    env::args().skip(1).filter(|argument| Some(argument) != arguments.name.as_ref());
                failures += usize::from(namespace::run(&scenario.name, options).is_err());
                continue;
            }
            println!("==> {}: {}", scenario.name, scenario.title);
            let site = scenarios.sites.get(&scenario.site);
            let site = site.map(|spec| Site::prepare(&scenario.site, spec, plan.is_quick)).transpose()?;
            let context = Context {
                scenarios: &scenarios,
                scenario,
                servers: &servers,
                present: &present,
                site: site.as_ref(),
                plan,
            };
            let rows = measure::run(&context)?.into_rows();
            let results = Results { conditions: conditions(&context, &missing)?, rows };
            results.write(&plan.folder("bench/results")?.join(format!("{}.tsv", scenario.name)))?;
            failures += results.failures();
        }
    }

    page::write(&scenarios, &plan.folder("bench/results")?, &plan.folder("docs")?)?;
    ensure!(failures == 0, "{failures} failures; the lines above have the servers and the reasons");
    Ok(())
}

/// Returns the scenarios of a name.
fn select<'a>(scenarios: &'a Scenarios, name: Option<&String>) -> Result<Vec<&'a Scenario>> {
    let group = name.and_then(|name| Group::from_str(name, false).ok());
    let is_selected = |scenario: &&Scenario| match (group, name) {
        (Some(group), _) => scenario.group == group,
        (None, Some(name)) => scenario.name == *name,
        (None, None) => !matches!(scenario.group, Group::Weather | Group::Library | Group::Cannery),
    };
    let selected: Vec<_> = scenarios.all.iter().filter(is_selected).collect();
    let names: Vec<_> = scenarios.all.iter().map(|scenario| scenario.name.as_str()).collect();
    ensure!(!selected.is_empty(), "there is no such scenario; there are {}", names.join(", "));
    Ok(selected)
}

/// Installs the servers of a scenario. Returns those that can be measured, and the others.
fn install<'a>(servers: &'a Servers, scenario: &Scenario) -> Result<(Vec<Spec<'a>>, Vec<Spec<'a>>)> {
    let is_present = |spec: &Spec<'_>| match spec.install() {
        Ok(()) => true,
        Err(reason) => {
            println!("{} is left out: {reason:#}", spec.name);
            false
        }
    };
    Ok(servers.resolve(&scenario.servers)?.into_iter().partition(is_present))
}

/// Returns command, date, commit, machine and versions.
fn conditions(context: &Context<'_>, missing: &[Spec<'_>]) -> Result<Vec<String>> {
    let commit = project::output(&mut project::shell("git rev-parse --short=12 HEAD"))?;
    // Tables of earlier runs may differ; the sources must not.
    let is_clean = project::shell("git diff --quiet HEAD -- :!bench/results :!docs").status()?.success();
    let mut conditions = vec![
        format!("command: {}", context.plan.command(context.scenario)),
        format!("date: {}", OffsetDateTime::now_utc().date()),
        format!("commit: {}{}", commit.trim(), if is_clean { "" } else { " with changes" }),
        format!("machine: {}", machine::description()),
    ];
    let mut versions = context.present.iter().map(Spec::version).collect::<Result<Vec<_>>>()?;
    versions.extend(["rustc", "wrk"].map(|program| machine::version(Command::new(program).arg("--version"))));
    versions.dedup();
    conditions.extend(versions.into_iter().map(|version| format!("version: {version}")));
    conditions.extend(missing.iter().map(|spec| format!("left out: {}", spec.name)));
    Ok(conditions)
}
