//! System calls per request, counted by strace.
//!
//! It measures no time: under strace a call takes a hundred times as long.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use super::Context;
use crate::load;
use crate::metric::Metric;
use crate::process::{Running, Server};
use crate::project;
use crate::results::Sample;
use crate::scenario::{Count, Step};
use crate::servers::Spec;

const REQUESTS: usize = 100_000;

pub(super) fn measure(context: &Context<'_>, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
    let server = spec.start(&context.launch(step), "0")?;
    let requests = if context.plan.is_quick { REQUESTS / 10 } else { REQUESTS };
    let job = context.job(&server, step, "1");
    // The server's memory and its threads exist before counting starts.
    load::h2load(&job, 1, Count::Requests(1000))?;
    let summary = traced(&server, || load::h2load(&job, 1, Count::Requests(requests)).map(drop))?;
    println!("{summary}");
    let calls = total(&summary).context("strace counted no calls")?;
    Ok(vec![(Metric::Calls, calls / requests as f64)])
}

/// Runs `load` while strace counts the calls of all threads of a server. Returns its summary, a line for each kind of call.
fn traced(server: &Server, load: impl FnOnce() -> Result<()>) -> Result<String> {
    let summary = project::scratch("running/calls.txt")?;
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&summary).arg("-p").arg(server.id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut strace = Running::start(&mut command)?;

    let mut line = String::new();
    BufReader::new(strace.0.stderr.take().context("strace has no output")?).read_line(&mut line)?;
    let is_attached = line.contains(" attached");
    let loaded = if is_attached { load() } else { Ok(()) };
    strace.signal(Signal::INT)?;
    strace.0.wait()?;
    ensure!(is_attached, "strace cannot attach, which containers often forbid: {line}");
    loaded?;
    Ok(fs::read_to_string(&summary)?)
}

/// Returns the number of all calls: the fourth column of the last line.
fn total(summary: &str) -> Option<f64> {
    let line = summary.lines().find(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_all_calls() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            \x20 52.31    1.500000          15    100000           sendto\n\
            100.00    2.900000          14    200016        16 total\n";
        assert_eq!(total(summary), Some(200_016.0));
        assert_eq!(total(""), None);
    }
}
