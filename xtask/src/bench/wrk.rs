//! The load generator, and how its report is read. A run with a single error is no run.

use std::net::SocketAddrV4;
use std::process::Command;
use std::time::Duration;

use super::certificates;
use super::loaded::Loaded;
use super::wire::{self, Wire};
use crate::error::Error;
use crate::project;

/// What is asked, how hard and for how long.
#[derive(Clone)]
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddrV4,
    pub(crate) connections: u32,
    pub(crate) time: Duration,
    /// The target of every request, unless the words say otherwise.
    pub(crate) target: &'a str,
    /// Fields of every request, each as `Name: value`.
    pub(crate) fields: &'a [String],
    pub(crate) wire: Wire,
    /// Words for `bench/load.lua`.
    pub(crate) words: &'a [String],
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

/// An answer may take so long. With very many connections the kernel makes some of them wait for seconds before
/// they stand, whatever the server does.
const TIMEOUT: &str = "30s";

impl<'a> Load<'a> {
    /// `GET /` again and again.
    pub(crate) fn plain(address: SocketAddrV4, connections: u32, seconds: u64) -> Load<'a> {
        let time = Duration::from_secs(seconds);
        Load { address, connections, time, target: "/", fields: &[], wire: wire::CLEAR, words: &[] }
    }

    /// Runs wrk on some processors until its time is over. All answers must be as good as `status`.
    pub(crate) fn run(&self, processors: &str, status: u16) -> Result<Loaded, Error> {
        let threads = processors.split(',').count();
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", processors]);
        if self.time < Duration::from_secs(1) {
            // It knows whole seconds only, but ends well when it is interrupted.
            command
                .args(["timeout", "--preserve-status", "--signal", "INT"])
                .arg(self.time.as_secs_f64().to_string());
        }
        command.args(["wrk", "--latency", "--timeout", TIMEOUT]);
        command
            .arg(format!("-t{threads}"))
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{}s", self.seconds()))
            .arg("-s")
            .arg(project::root().join("bench/load.lua"));
        for field in self.fields {
            command.arg("-H").arg(field);
        }
        command.env("OPENSSL_CONF", certificates::settings());
        command.arg(self.url()).arg("--").args(self.words);
        read(project::output(&mut command)?, status)
    }

    /// The time for those who know whole seconds only.
    pub(crate) fn seconds(&self) -> u64 {
        self.time.as_secs().max(1)
    }

    /// The first target's.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.wire.scheme(), self.address, self.target)
    }
}

fn read(raw: String, status: u16) -> Result<Loaded, Error> {
    let wrong = |line: &str| Error::Unexpected {
        what: "wrk".into(),
        expected: format!("a run without errors, every answer {status}"),
        got: line.trim().into(),
    };
    let number = |before: &str, after: &str| -> Option<f64> {
        let of_line = |line: &str| line.trim().strip_prefix(before)?.split_once(after)?.0.trim().parse().ok();
        raw.lines().find_map(of_line)
    };
    let requests = number("", " requests in ").filter(|requests| *requests > 0.0);
    let requests = requests.ok_or_else(|| wrong("no requests"))?;
    if let Some(line) = raw.lines().find(|line| line.contains("Socket errors")) {
        return Err(wrong(line));
    }
    // It counts as one kind whatever is not 2xx or 3xx.
    let count = |line: &str| line.trim().strip_prefix("Non-2xx or 3xx responses:")?.trim().parse().ok();
    let bad: f64 = raw.lines().find_map(count).unwrap_or(0.0);
    let bad_expected = if status >= 400 { requests } else { 0.0 };
    if (bad - bad_expected).abs() > 0.5 {
        return Err(wrong(&format!("{bad} of {requests} answers are not 2xx or 3xx")));
    }
    let rate = raw.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let waited = |percent: &str| number(&format!("waited {percent}% "), " us");
    let figures = (rate, waited("50"), waited("90"), waited("99"), waited("99.9"), waited("100"));
    let (Some(requests_per_second), Some(p50), Some(p90), Some(p99), Some(p999), Some(longest)) = figures
    else {
        return Err(wrong("a report without rate or percentiles"));
    };
    Ok(Loaded {
        requests,
        requests_per_second,
        waits_us: [p50, p90, p99, p999, longest],
        head_bytes: None,
        raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "  1062 requests in 5.01s, 55.10KB read\nRequests/sec:    211.97\n\
        waited 50% 589 us\nwaited 75% 600 us\nwaited 90% 700 us\nwaited 99% 800 us\nwaited 99.9% 900 us\n\
        waited 99.99% 950 us\nwaited 100% 1000 us\n";

    #[test]
    fn figures_are_read_from_a_clean_report() {
        let loaded = read(CLEAN.into(), 200).unwrap();
        assert!((loaded.requests - 1062.0).abs() < 0.001);
        assert!((loaded.requests_per_second - 211.97).abs() < 0.001);
        assert_eq!(loaded.waits_us.map(|wait| wait.round()), [589.0, 700.0, 800.0, 900.0, 1000.0]);
    }

    #[test]
    fn a_report_with_an_error_in_it_has_no_figures() {
        assert!(
            read(format!("{CLEAN}  Socket errors: connect 0, read 1, write 0, timeout 0\n"), 200).is_err()
        );
        assert!(read(format!("{CLEAN}  Non-2xx or 3xx responses: 3\n"), 200).is_err());
        assert!(read("  0 requests in 5.01s, 0B read\nRequests/sec:      0.00\n".into(), 200).is_err());
        assert!(read(String::new(), 200).is_err());
    }

    #[test]
    fn where_errors_are_asked_for_every_answer_must_be_one() {
        assert!(read(format!("{CLEAN}  Non-2xx or 3xx responses: 1062\n"), 404).is_ok());
        assert!(read(format!("{CLEAN}  Non-2xx or 3xx responses: 1061\n"), 404).is_err());
        assert!(read(CLEAN.into(), 404).is_err());
    }
}
