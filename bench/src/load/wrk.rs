//! wrk: HTTP/1.1 on persistent connections, with the script `load.lua`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Job, Report};
use crate::certificates;
use crate::project;
use crate::scenario::Order;

/// Limit for a response. With very many connections, the kernel delays some for seconds whatever the server does.
const TIMEOUT: &str = "30s";

/// Runs wrk with several requests in flight on each connection.
///
/// # Errors
///
/// Fails if the report has an error or a wrong status.
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
        command.args([
            "--preserve-status",
            "--signal",
            "INT",
            &job.duration.as_secs_f64().to_string(),
            "wrk",
        ]);
    }
    command.args(["--latency", "--timeout", TIMEOUT]);
    command.arg(format!("-t{}", job.threads())).arg(format!("-c{}", job.connections));
    command.arg(format!("-d{}s", job.seconds())).arg("-s").arg(project::folder().join("load.lua"));
    for header in job.headers {
        command.arg("-H").arg(header);
    }
    command.env("OPENSSL_CONF", certificates::openssl_settings());
    command.arg(job.url(&job.targets[0])).arg("--").args(script);
    parse(&project::output(&mut command)?, job.status)
}

fn parse(report: &str, status: u16) -> Result<Report> {
    let number = |before: &str, after: &str| -> Option<f64> {
        let of_line = |line: &str| line.trim().strip_prefix(before)?.split_once(after)?.0.trim().parse().ok();
        report.lines().find_map(of_line)
    };
    let requests =
        number("", " requests in ").filter(|requests| *requests > 0.0).context("wrk: no responses")?;
    let socket_errors = report.lines().find(|line| line.contains("Socket errors"));
    ensure!(socket_errors.is_none(), "wrk: {}", socket_errors.unwrap_or_default().trim());

    // wrk counts all statuses from 400 on together.
    let prefix = "Non-2xx or 3xx responses:";
    let count = |line: &str| line.trim().strip_prefix(prefix)?.trim().parse().ok();
    let bad: f64 = report.lines().find_map(count).unwrap_or(0.0);
    let bad_expected = if status >= 400 { requests } else { 0.0 };
    ensure!((bad - bad_expected).abs() < 0.5, "wrk: {bad} of {requests} responses are not 2xx or 3xx");

    let rate = report.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let mut percentiles = [0.0; 5];
    for (value, percent) in percentiles.iter_mut().zip(["50", "90", "99", "99.9", "100"]) {
        *value = number(&format!("waited {percent}% "), " us").context("wrk: no percentiles")?;
    }
    Ok(Report {
        requests,
        requests_per_s: rate.context("wrk: no rate")?,
        percentiles_us: Some(percentiles),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "  1062 requests in 5.01s, 55.10KB read\nRequests/sec:    211.97\n\
        waited 50% 589 us\nwaited 75% 600 us\nwaited 90% 700 us\nwaited 99% 800 us\nwaited 99.9% 900 us\n\
        waited 99.99% 950 us\nwaited 100% 1000 us\n";

    #[test]
    fn a_clean_report_has_values() {
        let report = parse(CLEAN, 200).unwrap();
        assert_eq!([report.requests, report.requests_per_s], [1062.0, 211.97]);
        assert_eq!(report.percentiles_us, Some([589.0, 700.0, 800.0, 900.0, 1000.0]));
    }

    #[test]
    fn errors_invalidate_the_report() {
        let with = |line: &str| format!("{CLEAN}  {line}\n");
        assert!(parse(&with("Socket errors: connect 0, read 1, write 0, timeout 0"), 200).is_err());
        assert!(parse(&with("Non-2xx or 3xx responses: 3"), 200).is_err());
        assert!(parse("  0 requests in 5.01s, 0B read\nRequests/sec:      0.00\n", 200).is_err());
        assert!(parse("", 200).is_err());
    }

    #[test]
    fn an_expected_error_status_must_be_in_every_response() {
        assert!(parse(&format!("{CLEAN}  Non-2xx or 3xx responses: 1062\n"), 404).is_ok());
        assert!(parse(&format!("{CLEAN}  Non-2xx or 3xx responses: 1061\n"), 404).is_err());
        assert!(parse(CLEAN, 404).is_err());
    }
}
