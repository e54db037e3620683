//! wrk: HTTP/1.1 on persistent connections, with the requests and the report of `load.lua`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Job, Report, number, percentiles};
use crate::certificates;
use crate::project;
use crate::scenario::Order;

/// Limit for a response. With very many connections, the kernel delays some for seconds whatever the server does.
const TIMEOUT: &str = "30s";

/// Runs wrk with several requests in flight on each connection.
pub(crate) fn run(job: &Job<'_>, order: Order, pipeline: usize) -> Result<Report> {
    let script = if job.targets.len() > 1 {
        let order = match order {
            Order::Random => "random",
            Order::Rotating => "rotating",
        };
        let file = job.write_targets("running/targets", str::to_owned)?;
        vec![order.to_owned(), file.display().to_string()]
    } else if pipeline > 1 {
        vec!["pipelined".to_owned(), pipeline.to_string()]
    } else {
        Vec::new()
    };

    let is_short = job.duration < Duration::from_secs(1);
    let mut command = project::pinned(job.processors, if is_short { "timeout" } else { "wrk" });
    if is_short {
        // wrk accepts only whole seconds, but prints its report after an interrupt.
        let seconds = job.duration.as_secs_f64().to_string();
        command.args(["--preserve-status", "--signal", "INT", &seconds, "wrk"]);
    }
    command.args(["--timeout", TIMEOUT]);
    command.arg(format!("-t{}", job.threads())).arg(format!("-c{}", job.connections));
    command.arg(format!("-d{}s", job.seconds())).arg("-s").arg(project::folder().join("load.lua"));
    for header in job.headers {
        command.arg("-H").arg(header);
    }
    command.env("OPENSSL_CONF", certificates::openssl_settings());
    command.arg(job.url(&job.targets[0])).arg("--").args(script);
    let mut report = parse(&project::output(&mut command)?, job.status).context("wrk")?;
    if pipeline > 1 {
        // wrk corrects its percentiles by the number of requests, which fails if several are sent together.
        report.percentiles.clear();
    }
    Ok(report)
}

fn parse(report: &str, status: u16) -> Result<Report> {
    let requests = number(report, "responses:")?;
    ensure!(requests > 0.0, "no responses");
    ensure!(number(report, "socket errors:")? == 0.0, "socket errors: {report}");

    // wrk counts all statuses from 400 on together.
    let bad = number(report, "error statuses:")?;
    let bad_expected = if status >= 400 { requests } else { 0.0 };
    ensure!(bad == bad_expected, "{bad} of {requests} responses have an error status");

    Ok(Report {
        requests,
        requests_per_s: requests * 1e6 / number(report, "microseconds:")?,
        percentiles: percentiles(report, ["p50:", "p90:", "p99:", "p99.9:", "longest:"], 1.0)?,
        header_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    const CLEAN: &str = "  1000 requests in 5.00s, 55.10KB read\nresponses: 1000\nmicroseconds: 5000000\n\
        socket errors: 0\nerror statuses: 0\np50: 589\np90: 700\np99: 800\np99.9: 900\nlongest: 1000\n";

    #[test]
    fn a_clean_report_has_values() {
        let report = parse(CLEAN, 200).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [1000.0, 200.0]);
        assert_eq!(report.percentiles.last(), Some(&(Metric::LongestUs, 1000.0)));
    }

    #[test]
    fn errors_invalidate_the_report() {
        let with = |clean: &str, changed: &str, status| parse(&CLEAN.replace(clean, changed), status).is_ok();
        assert!(!with("socket errors: 0", "socket errors: 1", 200));
        assert!(!with("statuses: 0", "statuses: 3", 200));
        assert!(!with("responses: 1000", "responses: 0", 200));
        assert!(parse("", 200).is_err());

        // An expected error status must be in every response.
        assert!(with("statuses: 0", "statuses: 1000", 404));
        assert!(!with("statuses: 0", "statuses: 999", 404));
    }
}
