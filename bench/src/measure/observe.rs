//! The cost of metrics and access log: two servers at the same time on the same processor.
//!
//! The scheduler alternates between them, so noise of the machine affects both alike. One after the other, the noise
//! was larger than the difference.

use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::Context;
use crate::load::{self, Job};
use crate::machine;
use crate::metric::Metric;
use crate::project;
use crate::results::Samples;
use crate::scenario::{Order, Step};
use crate::servers::Spec;

/// Load before the measurement, so the memory of all connections exists.
const WARM_UP: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let step = &context.scenario.steps[0];
    let plain = context.servers.get("cannery")?;
    // Each starts first as often as the other.
    let mut plain_place = 1;
    Ok(context.each_server(&context.scenario.steps[..1], context.plan.rounds(), 1, |spec, _| {
        plain_place = 1 - plain_place;
        let mut pair = [spec; 2];
        pair[plain_place] = &plain;
        let cpu_us = measure(context, step, pair)?;
        let [observed_us, plain_us] = [cpu_us[1 - plain_place], cpu_us[plain_place]];
        Ok(vec![(Metric::CpuUs, observed_us), (Metric::Ratio, observed_us / plain_us)])
    }))
}

/// Returns the CPU time per request of each server, in microseconds.
fn measure(context: &Context<'_>, step: &Step, pair: [&Spec<'_>; 2]) -> Result<[f64; 2]> {
    let placement = machine::placement(1)?;
    let launch = context.launch(step);
    let start = |spec: &Spec<'_>| spec.start(&launch, &placement.server);
    let servers = [start(pair[0])?, start(pair[1])?];
    // Loads both servers at the same time. Returns the number of responses of each.
    let load = |duration: Duration| {
        machine::in_threads(&servers, |server| {
            let job = Job { duration, ..context.job(server, step, &placement.generator) };
            Ok(load::wrk(&job, Order::Random, 1)?.requests)
        })
    };

    load(WARM_UP)?;
    let before = [servers[0].cpu_time()?, servers[1].cpu_time()?];
    let requests = load(context.duration())?;
    let cpu_us = |place: usize| -> Result<f64> {
        Ok(servers[place].cpu_seconds_since(before[place])? * 1e6 / requests[place])
    };
    let cpu_us = [cpu_us(0)?, cpu_us(1)?];

    // A log has gigabytes after some minutes.
    drop(servers);
    for spec in pair {
        let _ = fs::remove_file(project::scratch(&format!("running/{}/access.log", spec.name))?);
    }
    Ok(cpu_us)
}
