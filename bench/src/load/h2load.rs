//! h2load: HTTP/2 and HTTP/3, exact numbers of requests, new connections, and connections that stay idle.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Job, Report};
use crate::newer_debian;
use crate::process::Running;
use crate::project;
use crate::scenario::{Count, KeyExchange, Wire};

/// Connections over HTTP/3 that [`IdleClients`] open in a tenth of a second.
const OPENED_PER_100_MS: u32 = 20;

/// Runs h2load over all targets. Every connection requests them in order.
pub(crate) fn run(job: &Job<'_>, streams: u32, count: Count) -> Result<Report> {
    let file = job.write_targets("running/urls", |target| job.url(target))?;
    let mut command = command(job)?;
    command.arg(format!("-m{streams}"));
    match count {
        Count::Duration => command.arg(format!("-D{}ms", job.duration.as_millis())),
        Count::Requests(requests) => command.arg(format!("-n{requests}")),
        Count::ConnectionsPerS(rate) => {
            let count = u64::from(rate) * job.seconds();
            // The last of each option counts.
            command.args([format!("-n{count}"), format!("-c{count}"), format!("-r{rate}")])
        }
    };
    parse(&project::output(command.arg("-i").arg(file))?, job.status).context("h2load")
}

fn command(job: &Job<'_>) -> Result<Command> {
    let mut command = if job.wire == Wire::H3 {
        let program = newer_debian::command(newer_debian::H2LOAD)?;
        let mut command = project::pinned(job.processors, program.get_program());
        command.args(program.get_args()).arg("--alpn-list=h3");
        command
    } else {
        project::pinned(job.processors, "h2load")
    };
    // h2load needs a connection for each thread.
    let threads = job.threads().min(job.connections as usize);
    command.arg(format!("-t{threads}")).arg(format!("-c{}", job.connections));
    // The other generators get these from openssl.cnf, which h2load doesn't read.
    let group = job.key_exchange.unwrap_or(KeyExchange::X25519).name();
    command.arg("--tls13-ciphers=TLS_AES_128_GCM_SHA256").arg(format!("--groups={group}"));
    command.args((!matches!(job.wire, Wire::H2 | Wire::H3)).then_some("--h1"));
    for header in job.headers {
        command.arg("-H").arg(header);
    }
    Ok(command)
}

/// Connections that have sent one request each and stay idle.
pub(crate) struct IdleClients {
    /// Ends the connections when it is dropped.
    _process: Running,
    /// Has a line for each response: when it began, its status and its duration.
    log: PathBuf,
    /// The status of all responses.
    status: u16,
}

impl IdleClients {
    /// Opens connections.
    pub(crate) fn open(job: &Job<'_>) -> Result<IdleClients> {
        let log = project::scratch("running/responses")?;
        fs::write(&log, "")?;
        let mut command = command(job)?;
        // One request in 100 seconds for each connection; the first one is sent at once.
        command.args(["--rps=0.01", "-m1"]).arg(format!("--log-file={}", log.display()));
        if job.wire == Wire::H3 {
            // Memory that handshakes have used at the same time stays in a server's heap. Idle connections don't need it. They stay
            // open because each has a second request to send.
            command.args([format!("-n{}", 2 * job.connections), format!("-r{OPENED_PER_100_MS}")]);
            command.arg("--rate-period=100ms");
        } else {
            command.arg("-D90s");
        }
        command.arg(job.url(&job.targets[0])).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(IdleClients { _process: Running::start(&mut command)?, log, status: job.status })
    }

    /// Returns the number of responses that have arrived.
    ///
    /// # Errors
    /// One of them has another status, or a request has failed.
    pub(crate) fn responses(&self) -> Result<usize> {
        count_responses(&fs::read_to_string(&self.log)?, self.status)
    }
}

/// Counts the complete lines of a log, which must have this status. That of a failed request is -1.
fn count_responses(log: &str, status: u16) -> Result<usize> {
    let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.clone().try_for_each(|line| {
        let found = line.split_whitespace().nth(1).context("no status")?;
        ensure!(found == status.to_string(), "a connection has got the status {found}");
        Ok(())
    })?;
    Ok(lines.count())
}

fn parse(report: &str, status: u16) -> Result<Report> {
    // A line is a list of numbers, each with its unit or name.
    let count = |line: &str, name: &str| -> Result<f64> {
        let line = report.lines().find_map(|text| text.strip_prefix(line)).context("no report")?;
        let part = line.split(',').find(|part| part.trim_end().ends_with(name));
        let number = part.and_then(|part| part.trim().split(' ').next()?.parse().ok());
        number.with_context(|| format!("no `{name}`: {line}"))
    };

    let requests = count("requests: ", " done")?;
    ensure!(requests > 0.0, "no responses");
    // h2load counts responses with an error status as failed.
    let failed_expected = if status >= 400 { requests } else { 0.0 };
    for (name, expected) in [(" failed", failed_expected), (" errored", 0.0), (" timeout", 0.0)] {
        ensure!(count("requests: ", name)? == expected, "wrong number{name}:\n{report}");
    }
    for (first, name) in [(2, " 2xx"), (3, " 3xx"), (4, " 4xx"), (5, " 5xx")] {
        // h2load counts a status before the response ends, so a few responses may be missing at the end.
        let is_right = status / 100 == first || count("status codes: ", name)? == 0.0;
        ensure!(is_right, "responses with status{name}:\n{report}");
    }

    let headers =
        report.split_once(" headers").and_then(|(before, _)| before.rsplit_once('(')?.1.strip_suffix(')'));
    let header_bytes: f64 = headers.context("no header bytes")?.parse()?;
    Ok(Report {
        requests,
        requests_per_s: count("finished in ", " req/s")?,
        header_bytes: Some(header_bytes / requests),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "progress: 100% of clients started\n\nfinished in 1.01s, 78572.00 req/s, 10.19MB/s\n\
        requests: 78572 total, 79084 started, 78572 done, 78572 succeeded, 0 failed, 0 errored, 0 timeout\n\
        status codes: 78572 2xx, 0 3xx, 0 4xx, 0 5xx\n\
        traffic: 10.19MB (10686576) total, 7.87MB (8250060) headers (space savings 39.66%), 997.50KB (1021436) data\n";

    #[test]
    fn log_has_responses_with_one_status() {
        let log = "1764082800000000\t200\t1500\n1764082800000100\t200\t1600\n17640828";
        assert_eq!(count_responses(log, 200).unwrap(), 2);
        assert_eq!(count_responses("", 200).unwrap(), 0);
        assert!(count_responses(log, 404).is_err());
        assert!(count_responses("1764082800000000\t-1\t1500\n", 200).is_err());
    }

    #[test]
    fn a_clean_report_has_values() {
        let report = parse(CLEAN, 200).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [78_572.0, 78_572.0]);
        assert_eq!(report.header_bytes, Some(105.0));
    }

    #[test]
    fn errors_invalidate_the_report() {
        for (clean, changed) in [
            (" 0 failed", " 1 failed"),
            (" 0 errored", " 1 errored"),
            (" 0 timeout", " 1 timeout"),
            ("78572 2xx, 0 3xx, 0 4xx", "78571 2xx, 0 3xx, 1 4xx"),
            ("78572", "0"),
            (CLEAN, ""),
        ] {
            assert!(parse(&CLEAN.replace(clean, changed), 200).is_err(), "{changed}");
        }
        assert!(parse(CLEAN, 404).is_err());
    }
}
