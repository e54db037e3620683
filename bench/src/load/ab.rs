//! ab (ApacheBench): HTTP/1.0 from one thread. Some published workloads were measured with it.

use anyhow::{Context, Result, ensure};

use super::{Job, Report};
use crate::certificates;
use crate::project;

/// More requests than ab sends in a second, so the duration ends the run. ab allocates memory for each in advance.
const REQUESTS_PER_S_MAX: u64 = 250_000;

/// About the number of handshakes that ab makes in a second.
const HANDSHAKES_PER_S: u64 = 1000;

/// Runs ab for the job's duration, or for a fixed number of requests.
///
/// # Errors
///
/// Fails if the report has an error or a wrong status.
pub(crate) fn run(job: &Job<'_>, keep_alive: bool, requests: Option<u64>) -> Result<Report> {
    let mut command = project::pinned(job.processors, "ab");
    command.args(["-q", "-c"]).arg(job.connections.to_string());
    command.env("OPENSSL_CONF", certificates::openssl_settings());
    if keep_alive {
        command.arg("-k");
    }

    // A number of handshakes in place of a duration: all of them finish, so none is paid for and not counted.
    let handshakes = job.seconds() * HANDSHAKES_PER_S;
    let fixed = requests.or((!keep_alive && job.wire.has_tls()).then_some(handshakes));
    match fixed {
        Some(requests) => command.arg("-n").arg(requests.max(job.connections.into()).to_string()),
        // The duration precedes the number, because it sets another number.
        None => command.args([
            "-t",
            &job.seconds().to_string(),
            "-n",
            &(job.seconds() * REQUESTS_PER_S_MAX).to_string(),
        ]),
    };
    for header in job.headers {
        command.arg("-H").arg(header);
    }
    parse(&project::output(command.arg(job.url(&job.targets[0])))?, keep_alive)
}

fn parse(report: &str, keep_alive: bool) -> Result<Report> {
    let number = |name: &str| -> Option<f64> {
        let rest = report.lines().find_map(|line| line.trim().strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let failed = number("Failed requests:").context("ab: no report")?;
    let bad = failed + number("Non-2xx responses:").unwrap_or(0.0);
    ensure!(bad == 0.0, "ab: {bad} bad responses");
    // A connection that TLS refuses is neither complete nor failed, but transfers no content.
    ensure!(number("HTML transferred:").is_some_and(|bytes| bytes > 0.0), "ab: no content");

    let requests =
        number("Complete requests:").filter(|requests| *requests > 0.0).context("ab: no responses")?;
    let kept = number("Keep-Alive requests:");
    ensure!(!keep_alive || kept == Some(requests), "ab: {kept:?} of {requests} requests on kept connections");

    // ab prints whole milliseconds, and no percentile between 99 and 100.
    let mut percentiles = [0.0; 5];
    for (value, percent) in percentiles.iter_mut().zip(["50%", "90%", "99%", "100%", "100%"]) {
        *value = number(percent).context("ab: no percentiles")? * 1000.0;
    }
    Ok(Report {
        requests,
        requests_per_s: number("Requests per second:").context("ab: no rate")?,
        percentiles_us: Some(percentiles),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "Complete requests:      50000\nFailed requests:        0\nKeep-Alive requests:    50000\n\
        HTML transferred:       650000 bytes\n\
        Requests per second:    49950.05 [#/sec] (mean)\nPercentage of the requests served within a certain time (ms)\n  \
        50%      1\n  66%      1\n  90%      2\n  99%      3\n 100%      7 (longest request)\n";

    #[test]
    fn a_clean_report_has_values() {
        let report = parse(CLEAN, true).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [50_000.0, 49_950.05]);
        assert_eq!(report.percentiles_us, Some([1000.0, 2000.0, 3000.0, 7000.0, 7000.0]));
    }

    #[test]
    fn errors_invalidate_the_report() {
        assert!(parse(&CLEAN.replace("requests:        0", "requests:        1"), true).is_err());
        assert!(parse(&format!("{CLEAN}Non-2xx responses:      3\n"), true).is_err());
        assert!(parse(&CLEAN.replace("650000", "0"), true).is_err());
        assert!(parse("", true).is_err());

        let closed = CLEAN.replace("Keep-Alive requests:    50000", "Keep-Alive requests:    49000");
        assert!(parse(&closed, true).is_err());
        assert!(parse(&closed, false).is_ok());
    }
}
