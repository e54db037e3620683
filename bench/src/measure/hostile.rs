//! Attacks: latency of well-behaved clients before and during them, and their cost in memory, descriptors and CPU time.
//!
//! Each attack has a server of its own. One wrong response to a well-behaved client ends the benchmark.

mod attack;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use self::attack::{Attack, Kind};
use super::Context;
use crate::latency::Latencies;
use crate::load::Steady;
use crate::metric::{Metric, PERCENTILES};
use crate::process::{self, Server};
use crate::results::{Sample, Samples};
use crate::scenario::Step;

/// Processors of the server and of the attackers.
const SERVER: &str = "0";
const ATTACKERS: &str = "1";

/// Time without an attack before each attack.
const BEFORE_MAX: Duration = Duration::from_secs(15);

/// Limit for closing the attackers' connections; the server lingers for some seconds if the client sees no end.
const CLOSING_MAX: Duration = Duration::from_secs(15);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for step in &context.scenario.steps {
        measure(context, step, &mut samples)?;
    }
    Ok(samples)
}

fn measure(context: &Context<'_>, step: &Step, samples: &mut Samples) -> Result<()> {
    let label = context.scenario.label(step);
    let kind = Kind::named(&label)?;
    let processors = context.client_processors()?;
    let connections = context.connections(step);
    println!("{label}, {connections} connections");
    let server = context.servers.get("cannery")?.start(&context.launch(step), SERVER)?;
    let target = "/".to_owned();
    let content = context.site().content(&target)?;
    let clients = Steady { address: server.address(), target, content };

    let quiet = resources(&server)?;
    let descriptors = server.descriptors()?;
    let before = clients.run(context.plan.duration.min(BEFORE_MAX), processors)?.map(Latencies::new);

    let attack = Attack::begin(kind, server.address(), connections.into(), ATTACKERS);
    let cpu = server.cpu_time()?;
    let started = Instant::now();
    let during = clients.run(context.plan.duration, processors)?.map(Latencies::new);
    let busy = server.cpu_time()?.saturating_sub(cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    let mut attacked = resources(&server)?;
    attacked.push((Metric::Busy, busy));
    for (metric, count) in
        [(Metric::Opened, &attack.counts().opened), (Metric::Closed, &attack.counts().closed)]
    {
        attacked.push((metric, count.load(Ordering::Relaxed) as f64));
    }
    attack.end()?;

    let ended = Instant::now();
    while server.descriptors()? > descriptors && ended.elapsed() < CLOSING_MAX {
        thread::sleep(Duration::from_millis(50));
    }

    for (name, latencies) in [("before", &before), ("during", &during)] {
        for (connections, latencies) in ["kept connections", "new connections"].into_iter().zip(latencies) {
            samples.record(&label, &format!("{connections}, {name}"), Ok(values(latencies)));
        }
    }
    for (name, sample) in [("before", quiet), ("during", attacked), ("after", resources(&server)?)] {
        samples.record(&label, &format!("server, {name}"), Ok(sample));
    }
    Ok(())
}

fn values(latencies: &Latencies) -> Sample {
    let mut sample: Sample = PERCENTILES.into_iter().zip(latencies.percentiles()).collect();
    sample.push((Metric::SecondP99Us, latencies.p99_of_median_second()));
    sample.push((Metric::Requests, latencies.len() as f64));
    sample
}

/// Returns descriptors and memory of the server, and the kernel's memory for sockets.
fn resources(server: &Server) -> Result<Sample> {
    Ok(vec![
        (Metric::Descriptors, server.descriptors()? as f64),
        (Metric::PrivateMib, server.anonymous_bytes()? as f64 / 1_048_576.0),
        (Metric::KernelMib, process::kernel_tcp_bytes()? as f64 / 1_048_576.0),
    ])
}
