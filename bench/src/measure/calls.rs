//! System calls per request, counted by strace.
//!
//! It measures no time: under strace a call takes a hundred times as long.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use super::Context;
use crate::load::{self, Count};
use crate::metric::Metric;
use crate::process::{self, Server};
use crate::project;
use crate::results::Samples;
use crate::scenario::Step;

const REQUESTS: usize = 100_000;

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for step in &context.scenario.steps {
        for spec in context.present {
            let server = spec.start(&context.launch(step), "0")?;
            let calls = calls_per_request(context, &server, step)?;
            samples.record(&context.scenario.label(step), spec.name, Ok(vec![(Metric::Calls, calls)]));
        }
    }
    Ok(samples)
}

fn calls_per_request(context: &Context<'_>, server: &Server, step: &Step) -> Result<f64> {
    let requests = if context.plan.is_quick() { REQUESTS / 10 } else { REQUESTS };
    let job = context.job(server, step, "1");
    // The server's memory and its threads exist before counting starts.
    load::h2load(&job, 1, &Count::Requests(1000))?;
    let tracer = Tracer::attach(server)?;
    load::h2load(&job, 1, &Count::Requests(requests))?;
    let summary = tracer.detach()?;
    println!("{summary}");
    Ok(total(&summary).context("strace counted no calls")? / requests as f64)
}

/// A strace that counts the calls of a process.
struct Tracer {
    child: Child,
    summary: PathBuf,
}

impl Tracer {
    /// Attaches to all threads of a server.
    fn attach(server: &Server) -> Result<Tracer> {
        let summary = project::scratch("running/calls.txt")?;
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(&summary).arg("-p").arg(server.id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start strace")?;

        let mut line = String::new();
        let stderr = child.stderr.take().context("strace has no output")?;
        BufReader::new(stderr).read_line(&mut line)?;
        let tracer = Tracer { child, summary };
        ensure!(line.contains(" attached"), "strace cannot attach, which containers often forbid: {line}");
        Ok(tracer)
    }

    /// Detaches and returns the summary, a line for each kind of call.
    fn detach(mut self) -> Result<String> {
        process::send_signal(&self.child, Signal::INT)?;
        self.child.wait()?;
        Ok(fs::read_to_string(&self.summary)?)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
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
