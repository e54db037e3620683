//! `loadgen_udp.c`: the load on the floor over UDP, at the pace of the server that it is compared with.
//!
//! The cost of a datagram depends on how many of them a wake-up finds, so a floor at another pace would be another floor. No
//! packaged QUIC client can load it, because it doesn't speak QUIC.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Job, Report, number};
use crate::project;

const PROGRAM: &str = "loadgen_udp";

/// The requests of a server under load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) requests_per_s: f64,
    /// Requests for each wake-up of the server.
    pub(crate) batch: u32,
}

pub(crate) fn build() -> Result<()> {
    let program = project::scratch(PROGRAM)?;
    let source = project::folder().join("loadgen_udp.c");
    project::run(Command::new("gcc").args(["-O2", "-Wall", "-Wextra", "-o"]).arg(program).arg(source))
}

/// Sends requests at a pace. Fails if a datagram is lost, or if the floor doesn't keep up.
pub(crate) fn run(job: &Job<'_>, response_bytes: f64, pace: Pace) -> Result<Report> {
    // It has one thread.
    let last = job.processors.rsplit(',').next().unwrap_or(job.processors);
    let mut command = project::pinned(last, project::scratch(PROGRAM)?);
    command.arg(job.address.port().to_string()).arg(job.connections.to_string());
    command.arg(job.duration.as_millis().to_string()).arg(response_bytes.to_string());
    command.arg(pace.requests_per_s.to_string()).arg(pace.batch.clamp(1, job.connections).to_string());
    let report = project::output(&mut command)?;
    let requests = number(&report, "requests:")?;
    ensure!(requests > 0.0, "loadgen_udp: no responses");
    let requests_per_s = requests / number(&report, "seconds:")?;
    Ok(Report { requests, requests_per_s, ..Report::default() })
}
