//! nghttp2's load generator for HTTP/2, and how its report is read. A run with a single error is no run.
//!
//! It does not tell how long requests wait, but how many bytes their heads took on the wire, all tables warm.

use std::fs;
use std::process::Command;

use super::loaded::{Loaded, NO_WAITS};
use super::wrk::Load;
use crate::error::Error;
use crate::project;

/// Asks on every connection for so many things at a time until the time is over. The targets are asked for in their
/// order, by every connection from the first on.
pub(crate) fn run(
    load: &Load<'_>,
    targets: &[String],
    streams: u32,
    processors: &str,
) -> Result<Loaded, Error> {
    let threads = processors.split(',').count();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", processors, "h2load"]);
    command.arg(format!("-t{threads}")).arg(format!("-c{}", load.connections)).arg(format!("-m{streams}"));
    command.arg(format!("-D{}ms", load.time.as_millis()));
    // As the other generators offer it by way of bench/openssl.cnf, which this one does not heed.
    command.args(["--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--groups=X25519"]);
    for field in load.fields {
        command.arg("-H").arg(field);
    }
    command.arg("-i").arg(write_targets(load, targets)?);
    read(&project::output(&mut command)?)
}

/// All targets as a file of URLs.
fn write_targets(load: &Load<'_>, targets: &[String]) -> Result<std::path::PathBuf, Error> {
    let path = project::outside().join("running/urls");
    let urls: String =
        targets.iter().map(|target| format!("{}\n", Load { target, ..load.clone() }.url())).collect();
    fs::write(&path, urls).map_err(|source| Error::file(&path, source))?;
    Ok(path)
}

fn read(raw: &str) -> Result<Loaded, Error> {
    let wrong = |got: &str| Error::Unexpected {
        what: "h2load".into(),
        expected: "a run without errors, every answer 2xx".into(),
        got: got.trim().into(),
    };
    let line = |start: &str| raw.lines().find_map(|line| line.strip_prefix(start));
    // A line consists of numbers, each before what it counts.
    let count = |line: &str, what: &str| -> Option<f64> {
        let part = line.split(',').find(|part| part.trim_end().ends_with(what))?;
        part.trim().split(' ').next()?.parse().ok()
    };
    let (Some(requests), Some(statuses), Some(traffic), Some(finished)) =
        (line("requests: "), line("status codes: "), line("traffic: "), line("finished in "))
    else {
        return Err(wrong("no report"));
    };
    let done = count(requests, " done").filter(|done| *done > 0.0).ok_or_else(|| wrong(requests))?;
    let is_none = |what| count(requests, what) == Some(0.0);
    if !is_none(" failed") || !is_none(" errored") || !is_none(" timeout") {
        return Err(wrong(requests));
    }
    // Statuses are counted as heads come, and answers when they have ended: the last ones may be on their way.
    let is_bad = |what| count(statuses, what) != Some(0.0);
    if is_bad(" 3xx") || is_bad(" 4xx") || is_bad(" 5xx") {
        return Err(wrong(statuses));
    }
    let heads = traffic.split(',').find(|part| part.contains(" headers"));
    let head_bytes: Option<f64> =
        heads.and_then(|part| part.split_once('(')?.1.split_once(')')?.0.parse().ok());
    let (Some(requests_per_second), Some(head_bytes)) = (count(finished, " req/s"), head_bytes) else {
        return Err(wrong("a report without rate or bytes of heads"));
    };
    Ok(Loaded {
        requests: done,
        requests_per_second,
        waits_us: NO_WAITS,
        head_bytes: Some(head_bytes / done),
        raw: without_progress(raw),
    })
}

/// The report itself.
fn without_progress(raw: &str) -> String {
    let from = raw.find("finished in ").unwrap_or(0);
    raw[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "progress: 100% of clients started\n\nfinished in 1.01s, 78572.00 req/s, 10.19MB/s\n\
        requests: 78572 total, 79084 started, 78572 done, 78572 succeeded, 0 failed, 0 errored, 0 timeout\n\
        status codes: 78572 2xx, 0 3xx, 0 4xx, 0 5xx\n\
        traffic: 10.19MB (10686576) total, 7.87MB (8250060) headers (space savings 39.66%), 997.50KB (1021436) data\n";

    #[test]
    fn figures_are_read_from_a_clean_report() {
        let loaded = read(CLEAN).unwrap();
        assert!((loaded.requests - 78572.0).abs() < 0.5);
        assert!((loaded.requests_per_second - 78572.0).abs() < 0.001);
        assert!((loaded.head_bytes.unwrap() - 105.0).abs() < 0.001);
        assert!(loaded.raw.starts_with("finished"));
    }

    #[test]
    fn failures_bad_answers_and_silence_are_errors() {
        assert!(read(&CLEAN.replace(" 0 failed", " 1 failed")).is_err());
        assert!(read(&CLEAN.replace(" 0 errored", " 1 errored")).is_err());
        assert!(read(&CLEAN.replace(" 0 timeout", " 1 timeout")).is_err());
        assert!(read(&CLEAN.replace("78572 2xx, 0 3xx, 0 4xx", "78571 2xx, 0 3xx, 1 4xx")).is_err());
        assert!(read(&CLEAN.replace("78572", "0")).is_err());
        assert!(read("").is_err());
    }
}
