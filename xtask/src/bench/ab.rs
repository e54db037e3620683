//! ApacheBench: one thread, HTTP/1.0 with kept connections. Some published figures were made with it.

use std::process::Command;

use super::certificates;
use super::loaded::Loaded;
use super::wrk::Load;
use crate::error::Error;
use crate::project;

/// More requests than it can ask in a second, so that the time ends the run. It takes memory for each beforehand.
const REQUESTS_PER_SECOND_MAX: u64 = 250_000;

/// About as many handshakes as it can make in a second, and no less than there are connections.
const HANDSHAKES_PER_SECOND: u64 = 1000;

/// Runs ab on some processors until its time is over, or so long that it has made as many handshakes as take it that time.
pub(crate) fn run(load: &Load<'_>, processors: &str, keeps: bool) -> Result<Loaded, Error> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", processors, "ab", "-q", "-c"]).arg(load.connections.to_string());
    command.env("OPENSSL_CONF", certificates::settings());
    if keeps {
        command.arg("-k");
    }
    if keeps || load.wire.key.is_none() {
        // The time stands before the count, since it brings a count of its own.
        command.arg("-t").arg(load.seconds().to_string());
        command.arg("-n").arg((load.seconds() * REQUESTS_PER_SECOND_MAX).to_string());
    } else {
        // All who have begun come to an end, so that no handshake is paid for and not counted.
        command.arg("-n").arg((load.seconds() * HANDSHAKES_PER_SECOND).to_string());
    }
    for field in load.fields {
        command.arg("-H").arg(field);
    }
    command.arg(load.url());
    read(project::output(&mut command)?, keeps)
}

fn read(raw: String, keeps: bool) -> Result<Loaded, Error> {
    let wrong = |got: &str| Error::Unexpected {
        what: "ab".into(),
        expected: "a run without errors".into(),
        got: got.trim().into(),
    };
    let number = |name: &str| -> Option<f64> {
        let line = raw.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let bad = number("Failed requests:").unwrap_or(f64::NAN) + number("Non-2xx responses:").unwrap_or(0.0);
    if bad != 0.0 {
        return Err(wrong(&format!("{bad} bad answers")));
    }
    let requests = number("Complete requests:").filter(|requests| *requests > 0.0);
    // Whom TLS refuses is neither complete nor failed for it, but has got nothing.
    if number("HTML transferred:").unwrap_or(0.0) <= 0.0 {
        return Err(wrong("not a byte of an answer"));
    }
    let kept = number("Keep-Alive requests:");
    if keeps && kept != requests {
        return Err(wrong(&format!("{kept:?} of {requests:?} requests on connections that were kept")));
    }
    let waits = ["50%", "90%", "99%", "100%"].map(|percent| number(percent).map(|ms| ms * 1000.0));
    let (Some(requests), Some(requests_per_second), [Some(p50), Some(p90), Some(p99), Some(longest)]) =
        (requests, number("Requests per second:"), waits)
    else {
        return Err(wrong("no figures"));
    };
    // It counts in whole milliseconds and knows nothing between 99 and 100 %.
    Ok(Loaded {
        requests,
        requests_per_second,
        waits_us: [p50, p90, p99, longest, longest],
        head_bytes: None,
        raw,
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
    fn figures_are_read_from_a_clean_report() {
        let loaded = read(CLEAN.into(), true).unwrap();
        assert!((loaded.requests - 50_000.0).abs() < 0.5);
        assert!((loaded.requests_per_second - 49_950.05).abs() < 0.001);
        assert_eq!(loaded.waits_us.map(|wait| wait.round()), [1000.0, 2000.0, 3000.0, 7000.0, 7000.0]);
    }

    #[test]
    fn failures_bad_answers_and_lost_connections_are_errors() {
        assert!(read(CLEAN.replace("requests:        0", "requests:        1"), true).is_err());
        assert!(read(format!("{CLEAN}Non-2xx responses:      3\n"), true).is_err());
        let lost = CLEAN.replace("Keep-Alive requests:    50000", "Keep-Alive requests:    49000");
        assert!(read(lost.clone(), true).is_err());
        assert!(read(lost, false).is_ok());
        assert!(read(CLEAN.replace("650000", "0"), true).is_err());
        assert!(read(String::new(), true).is_err());
    }
}
