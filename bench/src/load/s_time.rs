//! `openssl s_time`: a connection and a resumed TLS handshake for each request. Other packaged tools never resume TLS 1.3
//! sessions: ab and wrk make full handshakes only, and h2load makes no new connections.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{Job, Report};
use crate::machine;
use crate::project;

/// Runs a process for each of the job's connections. Each makes a full handshake at first and resumes its session then. Fails
/// if a process makes another full handshake, or gets less than `response_bytes` for a request.
pub(crate) fn run(job: &Job<'_>, response_bytes: f64) -> Result<Report> {
    // s_time writes the path between `GET ` and ` HTTP/1.0`, and some servers have no content without a Host.
    let path = format!("{} HTTP/1.0\r\nHost: {}\r\nX-Version:", job.targets[0], job.address);
    let started = Instant::now();
    let counts = machine::in_threads(0..job.connections, |_| {
        let mut command = job.openssl_client("openssl")?;
        command.args(["s_time", "-reuse", "-tls1_3", "-www", &path, "-time", &job.seconds().to_string()]);
        command.arg("-connect").arg(job.address.to_string());
        parse(&project::output(&mut command)?, response_bytes)
    })?;
    let requests: f64 = counts.iter().sum();
    let requests_per_s = requests / started.elapsed().as_secs_f64();
    Ok(Report { requests, requests_per_s, ..Report::default() })
}

/// Returns the number of connections.
fn parse(report: &str, response_bytes: f64) -> Result<f64> {
    // A letter for each connection: resumed, or full with some version of TLS.
    let connections = report.lines().find(|line| line.starts_with('r')).context("s_time: no connections")?;
    ensure!(connections.bytes().all(|letter| letter == b'r'), "s_time: a full handshake");
    let bytes = report.lines().find_map(|line| line.rsplit_once("bytes read ")?.1.parse::<f64>().ok());
    let count = connections.len() as f64;
    ensure!(bytes.is_some_and(|bytes| bytes >= response_bytes * count), "s_time: too few bytes: {report}");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handshake_must_be_resumed_and_have_a_response() {
        let clean = "\n\nNow timing with session id reuse.\nstarting\nrrrr\n\n\
            4 connections in 0.58s; 6165.52 connections/user sec, bytes read 284\n\
            4 connections in 2 real seconds, 71 bytes read per connection\n";
        assert_eq!(parse(clean, 71.0).unwrap(), 4.0);
        parse(clean, 72.0).unwrap_err();
        parse(&clean.replace("rrrr", "rr*r"), 71.0).unwrap_err();
        parse("", 71.0).unwrap_err();
    }
}
