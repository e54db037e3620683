//! The cost of metrics and access log: two servers at the same time on the same processor.
//!
//! The scheduler alternates between them, so noise of the machine affects both alike. One after the other, the noise
//! was larger than the difference.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Context;
use crate::load::{self, Job};
use crate::machine;
use crate::metric::Metric;
use crate::process::Server;
use crate::project;
use crate::results::Samples;
use crate::scenario::{Order, Step};
use crate::servers::Spec;

/// Load before the measurement, so the memory of all connections exists.
const WARM_UP: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let step = &context.scenario.steps[0];
    let label = context.scenario.label(step);
    let plain = context.servers.get("cannery")?;
    let mut samples = Samples::default();
    for round in 0..context.plan.rounds {
        for spec in context.present {
            // Each starts first as often as the other.
            let is_plain_first = round % 2 == 0;
            let pair = if is_plain_first { [&plain, spec] } else { [spec, &plain] };
            let mut cpu_us = measure(context, step, pair)?;
            if !is_plain_first {
                cpu_us.reverse();
            }

            let ratio = cpu_us[1] / cpu_us[0];
            let sample = vec![(Metric::CpuUs, cpu_us[1]), (Metric::Ratio, ratio)];
            samples.record(&label, spec.name, Ok(sample));
        }
    }
    Ok(samples)
}

/// Returns the CPU time per request of each server, in microseconds.
fn measure(context: &Context<'_>, step: &Step, pair: [&Spec<'_>; 2]) -> Result<Vec<f64>> {
    let placement =
        machine::placement(machine::processors(), 1).context("a second processor is necessary")?;
    let launch = context.launch(step);
    let start = |spec: &Spec<'_>| spec.start(&launch, &placement.server);
    let servers = [start(pair[0])?, start(pair[1])?];

    load_both(context, &servers, WARM_UP, &placement.generator)?;
    let before = servers.each_ref().map(Server::cpu_time);
    let requests = load_both(context, &servers, context.plan.duration, &placement.generator)?;
    let mut cpu_us = Vec::new();
    for ((server, before), requests) in servers.iter().zip(before).zip(requests) {
        cpu_us.push(server.cpu_time()?.saturating_sub(before?).as_secs_f64() * 1e6 / requests);
    }

    // A log has gigabytes after some minutes.
    drop(servers);
    for spec in pair {
        let _ = fs::remove_file(project::scratch(&format!("running/{}/access.log", spec.name))?);
    }
    Ok(cpu_us)
}

/// Loads both servers at the same time. Returns the number of responses of each.
fn load_both(
    context: &Context<'_>,
    servers: &[Server; 2],
    duration: Duration,
    processors: &str,
) -> Result<Vec<f64>> {
    machine::in_threads(servers, |server| {
        let job = Job { duration, ..context.job(server, &context.scenario.steps[0], processors) };
        Ok(load::wrk(&job, Order::Random, 1)?.requests)
    })
}
