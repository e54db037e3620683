//! `loadgen.c`: a generator that needs less CPU time for a request than a server, so several server threads are busy.
//!
//! We wrote it because no packaged tool does: wrk needs 4.2 µs for a request where Cannery needs 3.4, and leaves two
//! server threads idle for a fifth of the time on a machine with two processors for each. `loadgen.c` compares every
//! byte of every response except the date, and measures no latency.

use std::fs;

use anyhow::{Context, Result};

use super::{Exchange, Job, Report};
use crate::programs;
use crate::project;
use crate::scenario::Distribution;

/// Sends the same request on every connection, with a process on each processor.
///
/// # Errors
///
/// Fails if a response differs from the given one or a connection ends.
pub(crate) fn run(job: &Job<'_>, exchange: &Exchange, distribution: Distribution) -> Result<Report> {
    let mut command = project::pinned(job.processors, programs::c_program("loadgen")?);
    command.arg(job.address.port().to_string()).arg(job.connections.to_string());
    command.arg(job.duration.as_millis().to_string());
    for (name, bytes) in [("request", &exchange.request), ("response", &exchange.response)] {
        let path = project::scratch(&format!("running/{name}"))?;
        fs::write(&path, bytes)?;
        command.arg(path);
    }
    command.arg(match distribution {
        Distribution::Apart => "apart",
        Distribution::Across => "across",
    });
    parse(&project::output(&mut command)?)
}

fn parse(report: &str) -> Result<Report> {
    let total = report.lines().find_map(|line| {
        let (requests, rest) = line.split_once(" requests in ")?;
        let (seconds, _) = rest.split_once(" s,")?;
        Some((requests.parse::<f64>().ok()?, seconds.parse::<f64>().ok()?))
    });
    let (requests, seconds) =
        total.filter(|(requests, seconds)| *requests > 0.0 && *seconds > 0.0).context("loadgen: no total")?;
    Ok(Report { requests, requests_per_s: requests / seconds, ..Report::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_parsed() {
        let report = "process with 200 connections on processor 0: 188478 requests\n\
            384997 requests in 2.000000 s, 76999400 bytes received\n";
        let report = parse(report).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [384_997.0, 192_498.5]);
        assert!(parse("process: 3 requests\n").is_err());
        assert!(parse("0 requests in 2.000000 s, 0 bytes received\n").is_err());
    }
}
