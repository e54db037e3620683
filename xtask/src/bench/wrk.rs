//! The load generator, and how its report is read. A run with a single error is no run.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::project;

/// What is asked, how hard and for how long.
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddrV4,
    pub(crate) connections: u32,
    pub(crate) seconds: u64,
    /// A script that makes the requests; without one every request is `GET /`.
    pub(crate) script: Option<&'a Path>,
}

/// What came of it.
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    /// The whole report, for the record.
    pub(crate) raw: String,
}

/// Which processors the generator runs on: never the server's, which is 0.
pub(crate) fn processors(available: usize) -> Result<&'static str, Error> {
    match available {
        4.. => Ok("2,3"),
        2 | 3 => Ok("1"),
        _ => Err(Error::Missing {
            what: "a second processor".into(),
            remedy: "server and load generator on one processor would measure each other".into(),
        }),
    }
}

impl Load<'_> {
    /// Runs wrk on some processors until its time is over.
    pub(crate) fn run(&self, processors: &str) -> Result<Figures, Error> {
        let threads = processors.split(',').count();
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", processors, "wrk", "--latency"]);
        command
            .arg(format!("-t{threads}"))
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{}s", self.seconds));
        if let Some(script) = self.script {
            command.arg("-s").arg(script);
        }
        command.arg(format!("http://{}/", self.address));
        read(project::output(&mut command)?)
    }
}

fn read(raw: String) -> Result<Figures, Error> {
    let wrong = |line: &str| Error::Unexpected {
        what: "wrk".into(),
        expected: "a run without errors".into(),
        got: line.trim().into(),
    };
    if let Some(line) = raw.lines().find(|line| line.contains("Socket errors") || line.contains("Non-2xx")) {
        return Err(wrong(line));
    }
    let requests = raw.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let rate = raw.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    match (requests, rate) {
        (Some(requests), Some(requests_per_second)) if requests > 0 => {
            Ok(Figures { requests, requests_per_second, raw })
        }
        _ => Err(wrong("no figures")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "  1062 requests in 5.01s, 55.10KB read\nRequests/sec:    211.97\n";

    #[test]
    fn figures_are_read_from_a_clean_report() {
        let figures = read(CLEAN.into()).unwrap();
        assert_eq!(figures.requests, 1062);
        assert!((figures.requests_per_second - 211.97).abs() < 0.001);
    }

    #[test]
    fn a_report_with_an_error_in_it_has_no_figures() {
        assert!(read(format!("{CLEAN}  Socket errors: connect 0, read 1, write 0, timeout 0\n")).is_err());
        assert!(read(format!("{CLEAN}  Non-2xx or 3xx responses: 3\n")).is_err());
        assert!(read("  0 requests in 5.01s, 0B read\nRequests/sec:      0.00\n".into()).is_err());
        assert!(read(String::new()).is_err());
    }
}
