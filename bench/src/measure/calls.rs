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
        let label = context.scenario.label(step);
        for spec in context.present {
            let server = spec.start(&context.launch(step), "0")?;
            let calls = count(context, &server, step)?;
            println!("{} with {label} connections:", spec.name);
            for (name, count) in &calls {
                println!("  {name:<16} {count:>8} {:>8.3} per request", *count as f64 / REQUESTS as f64);
            }
            let sum: u64 = calls.iter().map(|(_, count)| count).sum();
            samples.record(&label, spec.name, Ok(vec![(Metric::Calls, sum as f64 / REQUESTS as f64)]));
        }
    }
    Ok(samples)
}

/// Returns the number of calls of each kind, most frequent first.
fn count(context: &Context<'_>, server: &Server, step: &Step) -> Result<Vec<(String, u64)>> {
    let requests = if context.plan.is_quick() { REQUESTS / 10 } else { REQUESTS };
    let job = context.job(server, step, "1");
    // The server's memory and its threads exist before counting starts.
    load::h2load(&job, 1, &Count::Requests(1000))?;
    let tracer = Tracer::attach(server)?;
    load::h2load(&job, 1, &Count::Requests(requests))?;
    let mut calls = tracer.detach()?;
    let factor = (REQUESTS / requests) as u64;
    calls.iter_mut().for_each(|(_, count)| *count *= factor);
    Ok(calls)
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

    /// Detaches and returns the counts.
    fn detach(mut self) -> Result<Vec<(String, u64)>> {
        process::send_signal(&self.child, Signal::INT)?;
        self.child.wait()?;
        let text = fs::read_to_string(&self.summary)?;
        let mut calls: Vec<_> = text.lines().filter_map(parse_line).collect();
        calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        ensure!(!calls.is_empty(), "strace counted no calls");
        Ok(calls)
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

/// Parses a line of the summary: share, seconds, µs per call, calls, errors if any, name.
fn parse_line(line: &str) -> Option<(String, u64)> {
    let words: Vec<_> = line.split_whitespace().collect();
    let name = *words.last()?;
    let count = words.get(3)?.parse().ok()?;
    (words.len() >= 5 && name != "total").then(|| (name.to_owned(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_line_for_each_call() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            \x20 52.31    1.500000          15    100000           sendto\n\
            \x20 47.69    1.400000          14    100016        16 recvfrom\n\
            100.00    2.900000          14    200016        16 total\n";
        let calls: Vec<_> = summary.lines().filter_map(parse_line).collect();
        assert_eq!(calls, [("sendto".into(), 100_000), ("recvfrom".into(), 100_016)]);
    }
}
