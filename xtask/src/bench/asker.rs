//! Our own load generator for threads that are all busy (`bench/asker.c`), and how its report is read.
//!
//! It costs less for a request than a server does, which wrk does not. It checks every byte of every answer but the
//! date's, and does not tell how long requests wait. A run with a single wrong answer is no run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::commands;
use super::loaded::{Loaded, NO_WAITS};
use super::wrk::Load;
use crate::error::Error;
use crate::project;

/// Who asks whom, where generator and server have several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dealing {
    /// Each thread of the server is asked by as few processes as can be.
    Apart,
    /// All are asked by all.
    Across,
}

/// Asks the same on every connection until the time is over, by a process on each of some processors.
pub(crate) fn run(
    load: &Load<'_>,
    request: &[u8],
    answer: &[u8],
    dealing: Dealing,
    processors: &str,
) -> Result<Loaded, Error> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", processors]).arg(commands::asker()?);
    command.arg(load.address.port().to_string()).arg(load.connections.to_string());
    command.arg(load.time.as_millis().to_string());
    command.arg(write("request", request)?).arg(write("answer", answer)?);
    command.arg(match dealing {
        Dealing::Apart => "apart",
        Dealing::Across => "across",
    });
    read(project::output(&mut command)?)
}

fn write(name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = project::outside().join("running").join(name);
    fs::write(&path, bytes).map_err(|source| Error::file(&path, source))?;
    Ok(path)
}

fn read(raw: String) -> Result<Loaded, Error> {
    let figures = raw.lines().find_map(|line| {
        let (requests, rest) = line.split_once(" requests in ")?;
        let (seconds, _) = rest.split_once(" s,")?;
        Some((requests.parse::<f64>().ok()?, seconds.parse::<f64>().ok()?))
    });
    let Some((requests, seconds)) = figures.filter(|(requests, seconds)| *requests > 0.0 && *seconds > 0.0)
    else {
        return Err(Error::Unexpected {
            what: "the load generator".into(),
            expected: "how many requests it made in which time".into(),
            got: raw.trim().into(),
        });
    };
    let requests_per_second = requests / seconds;
    Ok(Loaded { requests, requests_per_second, waits_us: NO_WAITS, head_bytes: None, raw })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_a_report() {
        let report = "a process whose connections were answered, 200 on processor 0: 188478 requests\n\
            384997 requests in 2.000000 s, 76999400 bytes received\n";
        let loaded = read(report.into()).unwrap();
        assert!((loaded.requests - 384_997.0).abs() < 0.001);
        assert!((loaded.requests_per_second - 192_498.5).abs() < 0.001);
    }

    #[test]
    fn a_report_without_a_sum_has_no_figures() {
        assert!(read("a process whose connections were answered: 3 requests\n".into()).is_err());
        assert!(read("0 requests in 2.000000 s, 0 bytes received\n".into()).is_err());
        assert!(read(String::new()).is_err());
    }
}
