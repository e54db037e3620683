//! ab (ApacheBench): HTTP/1.0 from one thread. Some published workloads were measured with it.

use anyhow::{Context, Result, ensure};

use super::{Job, Report, number, percentiles};
use crate::project;

/// More requests than ab sends in a second, so the duration ends the run. ab allocates memory for each in advance.
const REQUESTS_PER_S_MAX: u64 = 250_000;

/// About the number of handshakes that ab makes in a second.
const HANDSHAKES_PER_S: u64 = 1000;

/// Runs ab for the job's duration, or for a fixed number of requests.
pub(crate) fn run(job: &Job<'_>, keep_alive: bool, requests: Option<u64>) -> Result<Report> {
    let mut command = job.openssl_client("ab")?;
    command.args(["-q", "-c"]).arg(job.connections.to_string());
    command.args(keep_alive.then_some("-k"));
    command.args(job.lengths_vary.then_some("-l"));

    // A number of handshakes in place of a duration: all of them finish, so none is paid for and not counted.
    let handshakes = (!keep_alive && job.wire.has_tls()).then_some(job.seconds() * HANDSHAKES_PER_S);
    let requests = match requests.or(handshakes) {
        Some(requests) => requests.max(job.connections.into()),
        None => {
            // The duration precedes the number, because it sets another number.
            command.arg("-t").arg(job.seconds().to_string());
            job.seconds() * REQUESTS_PER_S_MAX
        }
    };
    command.arg("-n").arg(requests.to_string());
    for header in job.headers {
        command.arg("-H").arg(header);
    }
    parse(&project::output(command.arg(job.url(&job.targets[0])))?, keep_alive).context("ab")
}

fn parse(report: &str, keep_alive: bool) -> Result<Report> {
    let bad = number(report, "Failed requests:")? + number(report, "Non-2xx responses:").unwrap_or(0.0);
    ensure!(bad == 0.0, "{bad} bad responses");
    // A connection that TLS refuses is neither complete nor failed, but transfers no content.
    ensure!(number(report, "HTML transferred:")? > 0.0, "no content");
    let requests = number(report, "Complete requests:")?;
    ensure!(requests > 0.0, "no responses");
    let kept = number(report, "Keep-Alive requests:").unwrap_or(0.0);
    ensure!(!keep_alive || kept == requests, "{kept} of {requests} requests on kept connections");
    Ok(Report {
        requests,
        requests_per_s: number(report, "Requests per second:")?,
        // ab prints whole milliseconds, and no percentile between 99 and 100.
        percentiles: percentiles(report, ["50%", "90%", "99%", "100%", "100%"], 1000.0)?,
        header_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    const CLEAN: &str = "Complete requests:      50000\nFailed requests:        0\nKeep-Alive requests:    50000\n\
        HTML transferred:       650000 bytes\n\
        Requests per second:    49950.05 [#/sec] (mean)\nPercentage of the requests served within a certain time (ms)\n  \
        50%      1\n  66%      1\n  90%      2\n  99%      3\n 100%      7 (longest request)\n";

    #[test]
    fn a_clean_report_has_values() {
        let report = parse(CLEAN, true).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [50_000.0, 49_950.05]);
        assert_eq!(report.percentiles[2..4], [(Metric::P99Us, 3000.0), (Metric::P999Us, 7000.0)]);
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
