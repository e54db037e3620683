//! System calls for a request, counted by strace: sixty-four connections ask in turns, each again when it has been
//! answered, and then one connection does.
//!
//! Counts and no times: under strace a call takes a hundred times as long.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::ordinary::Visitor;
use super::report::Report;
use super::server::{REQUEST, Running};
use super::{Plan, commands, machine, page};
use crate::error::Error;
use crate::project;

const REQUESTS: usize = 100_000;

/// Connections at a time. Of many that are ready one wait tells; of one, each is waited for.
const CONNECTIONS: [usize; 2] = [64, 1];

/// The ways to serve.
const WAYS: [&str; 2] = ["epoll", "io_uring"];

const PROCESSOR: &str = "0";

/// How often one kind of call was made.
struct Calls {
    name: String,
    count: u64,
}

pub(crate) fn run(_: Plan) -> Result<(), Error> {
    let server = commands::path("cannery-server")?;
    let archive = page::archive()?;
    let versions = [
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
        machine::version("strace", "--version"),
    ];
    let mut report = Report::new("calls", "cargo xtask bench calls", &versions);
    for way in WAYS {
        for connections in CONNECTIONS {
            match count(&server, &archive, way, connections) {
                Ok(calls) => tell(&mut report, way, connections, &calls),
                // Containers forbid it, and so may the system's owner.
                Err(Error::Failed { program, status }) => {
                    report.line(&format!("{way}: left out, since `{program}` would not start: {status}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    report.save()
}

fn tell(report: &mut Report, way: &str, connections: usize, calls: &[Calls]) {
    let total: u64 = calls.iter().map(|calls| calls.count).sum();
    let of_request = |count: u64| count as f64 / REQUESTS as f64;
    report.line(&format!(
        "{way}, {connections} connections, {REQUESTS} requests: {:.3} calls a request",
        of_request(total)
    ));
    for Calls { name, count } in calls {
        report.line(&format!("  {name:<16} {count:>8} {:>8.3}", of_request(*count)));
    }
}

/// The calls that one serving thread makes for all requests, the most frequent first.
fn count(server: &Path, archive: &Path, way: &str, connections: usize) -> Result<Vec<Calls>, Error> {
    let address = machine::free_address()?;
    let mut command = Command::new(server);
    command.args(["--quiet", "--threads", "1", "--io", way]);
    command.arg("--bind").arg(address.to_string()).arg("--archive").arg(archive);
    let running = Running::start(&mut command, PROCESSOR, address)?;
    // Asks once, and so learns how long an answer is.
    let visitor = Visitor::new(address, "/", &page::content())?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(TcpStream::connect(address).map_err(|source| Error::file(address.to_string(), source))?);
    }
    let mut answer = vec![0; visitor.answer_bytes()];
    // Accepted, and answered once, before anything is counted.
    ask(&mut clients, connections, &mut answer)?;
    let tracer = Tracer::attach(running.process())?;
    ask(&mut clients, REQUESTS, &mut answer)?;
    tracer.detach()
}

/// Asks so often in all: in each round every connection asks, and then every answer is taken.
fn ask(clients: &mut [TcpStream], requests: usize, answer: &mut [u8]) -> Result<(), Error> {
    let broken = |source| Error::file("a connection to the server", source);
    let mut left = requests;
    while left > 0 {
        let of_round = left.min(clients.len());
        for client in &mut clients[..of_round] {
            client.write_all(REQUEST).map_err(broken)?;
        }
        for client in &mut clients[..of_round] {
            client.read_exact(answer).map_err(broken)?;
        }
        left -= of_round;
    }
    Ok(())
}

/// A strace that counts the calls of a process.
struct Tracer {
    child: Child,
    summary: PathBuf,
}

impl Tracer {
    /// Begins to count, for all threads that there are.
    fn attach(process: u32) -> Result<Tracer, Error> {
        let summary = project::outside().join("calls.txt");
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(&summary).arg("-p").arg(process.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::start(&command, source))?;
        let mut word = String::new();
        if let Some(words) = child.stderr.take() {
            BufReader::new(words).read_line(&mut word).map_err(|source| Error::file("strace", source))?;
        }
        if word.contains(" attached") {
            return Ok(Tracer { child, summary });
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(Error::Unexpected {
            what: "strace".into(),
            expected: "that it attaches to the server".into(),
            got: word,
        })
    }

    /// Ends counting, and reads what was counted.
    fn detach(mut self) -> Result<Vec<Calls>, Error> {
        project::run(Command::new("kill").arg("-INT").arg(self.child.id().to_string()))?;
        self.child.wait().map_err(|source| Error::file("strace", source))?;
        let text = fs::read_to_string(&self.summary).map_err(|source| Error::file(&self.summary, source))?;
        let mut calls: Vec<_> = text.lines().filter_map(parse_line).collect();
        calls.sort_by_key(|calls| std::cmp::Reverse(calls.count));
        if calls.is_empty() {
            let expected = "a line for each kind of call".into();
            return Err(Error::Unexpected { what: "strace".into(), expected, got: text });
        }
        Ok(calls)
    }
}

/// A line of the summary: share, seconds, microseconds a call, calls, perhaps errors, name.
fn parse_line(line: &str) -> Option<Calls> {
    let words: Vec<_> = line.split_whitespace().collect();
    let name = *words.last()?;
    let count = words.get(3)?.parse().ok()?;
    (words.len() >= 5 && name != "total").then(|| Calls { name: name.into(), count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_summary_are_told_from_its_frame() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            \x20 52.31    1.500000          15    100000           sendto\n\
            \x20 47.69    1.400000          14    100016        16 recvfrom\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    2.900000          14    200016        16 total\n";
        let calls: Vec<_> =
            summary.lines().filter_map(parse_line).map(|calls| (calls.name, calls.count)).collect();
        assert_eq!(calls, [("sendto".into(), 100_000), ("recvfrom".into(), 100_016)]);
    }
}
