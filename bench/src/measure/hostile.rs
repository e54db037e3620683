//! Attacks: latency of well-behaved clients before and during them, and their cost in memory, descriptors and CPU time.
//!
//! Each attack has a server of its own. One wrong response to a well-behaved client ends the benchmark.

mod attack;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;

use self::attack::Attack;
use super::{Context, Rows};
use crate::latency::Latencies;
use crate::load::Steady;
use crate::machine::wait_until;
use crate::metric::{Metric, mebibytes};
use crate::process::Server;
use crate::resources;
use crate::results::Sample;
use crate::scenario::Step;

/// The processor of the attackers.
const ATTACKERS: &str = "1";

/// Time without an attack before each attack.
const BEFORE_MAX: Duration = Duration::from_secs(15);

/// Limit for closing the attackers' connections; the server lingers for some seconds if the client sees no end.
const CLOSING_MAX: Duration = Duration::from_secs(15);

pub(super) fn measure(context: &Context<'_>, step: &Step) -> Result<Rows> {
    let label = context.scenario.label(step);
    let processors = context.client_processors()?;
    let connections = context.connections(step);
    println!("{label}, {connections} connections");
    let server = context.start_cannery(step)?;
    let attack = Attack::named(&label, server.address(), connections)?;
    let clients = Steady::new(&server, context.site(), "/")?;

    let quiet = usage(&server)?;
    let descriptors = server.descriptors();
    let before = clients.run(context.duration().min(BEFORE_MAX), processors)?;
    let (during, attacked) = attack.during(ATTACKERS, || {
        let cpu = server.cpu_time()?;
        let started = Instant::now();
        let during = clients.run(context.duration(), processors)?;
        let busy = server.cpu_seconds_since(cpu)? / started.elapsed().as_secs_f64();
        let mut attacked = usage(&server)?;
        attacked.push((Metric::Busy, busy));
        attacked.push((Metric::Opened, attack.opened.load(Ordering::Relaxed) as f64));
        attacked.push((Metric::Closed, attack.closed.load(Ordering::Relaxed) as f64));
        Ok((during, attacked))
    })?;
    // Those that remain are in the last row.
    let _ = wait_until(CLOSING_MAX, Duration::from_millis(50), || Ok(server.descriptors() <= descriptors));

    let mut rows = Rows::new();
    for (when, timings) in [("before", before), ("during", during)] {
        for (kind, timings) in ["kept connections", "new connections"].into_iter().zip(timings) {
            let latencies = Latencies::new(timings);
            let mut sample = latencies.sample();
            sample.push((Metric::SecondP99Us, latencies.p99_of_median_second()));
            sample.push((Metric::Requests, latencies.len() as f64));
            rows.push((format!("{kind}, {when}"), sample));
        }
    }
    let usages = [("before", quiet), ("during", attacked), ("after", usage(&server)?)];
    rows.extend(usages.map(|(when, sample)| (format!("server, {when}"), sample)));
    Ok(rows)
}

/// Returns descriptors and memory of the server, and the kernel's memory for sockets.
fn usage(server: &Server) -> Result<Sample> {
    Ok(vec![
        (Metric::Descriptors, server.descriptors() as f64),
        (Metric::PrivateMib, mebibytes(server.anonymous_bytes()?)),
        (Metric::KernelMib, mebibytes(resources::kernel_tcp_bytes()?)),
    ])
}
