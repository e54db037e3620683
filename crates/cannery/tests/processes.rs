//! Tests a server with routes in several processes, one of which gets killed before a new program takes
//! over.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[path = "../examples/site_and_routes.rs"]
#[allow(dead_code)]
mod example;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use cannery::{Request, Server};
use cannery_testkit::{Response, http1};

/// This variable has the archive for [`program`].
const ARCHIVE_VARIABLE: &str = "TEST_ARCHIVE";

/// Time limit for each step. No step should take nearly as long, even on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Not a real test: the tests below start this file as a process and need this function as its
/// supervisor.
#[test]
#[ignore = "it is started by other tests"]
fn program() {
    let archive = std::env::var(ARCHIVE_VARIABLE).unwrap();
    example::serve(&archive, "2".parse().ok()).unwrap();
}

/// Like [`program`], but a handler never returns.
#[test]
#[ignore = "it is started by other tests"]
fn program_with_endless_handler() {
    let archive = std::env::var(ARCHIVE_VARIABLE).unwrap();
    let server = Server::new().site(archive).bind("127.0.0.1:0").processes(NonZeroUsize::MIN);
    let server =
        server.configure(|settings| settings.drain(Duration::from_secs(1))).threads(NonZeroUsize::MIN);
    let endless = |_: &Request<'_>| -> &'static str {
        loop {
            thread::park();
        }
    };
    server.route("GET /endless", endless).run_with(example::print).unwrap();
}

/// A running supervisor. After a takeover, it isn't our child.
struct Supervisor {
    first: Child,
    process: u32,
    address: String,
    lines: Receiver<String>,
}

impl Supervisor {
    fn start(archive: &str) -> Supervisor {
        Supervisor::start_program("program", archive)
    }

    fn start_program(name: &str, archive: &str) -> Supervisor {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--ignored", "--nocapture"]).env(ARCHIVE_VARIABLE, archive);
        let mut first = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(first.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let process = first.id();
        let mut supervisor = Supervisor { first, process, address: String::new(), lines };
        supervisor.address = supervisor.await_address();
        supervisor
    }

    /// Waits until a supervisor has printed its address.
    fn await_address(&self) -> String {
        self.await_line("http://").trim_end_matches('/').to_owned()
    }

    /// Waits for a line with this text, then returns the rest of the line.
    fn await_line(&self, text: &str) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    fn processes(&self) -> BTreeSet<u32> {
        // They are started by threads of the supervisor.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process)).unwrap();
        let children = tasks.flat_map(|task| fs::read_to_string(task.unwrap().path().join("children")));
        let children: Vec<_> = children.collect();
        children.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
    }

    fn request(&self, request: &str) -> Response {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut client = http1::Client::new(stream);
        client.send(request.as_bytes()).unwrap();
        client.receive("GET").unwrap()
    }

    /// Tests one route of each kind, and the site.
    fn check(&self) {
        let hello = self.request("GET /hello/Ada HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(hello.body, b"Hello Ada!\n");
        let echo = self.request("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(echo.body, b"abc");
        let page = self.request("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(page.body, b"<title>Home</title>");
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        kill("TERM", self.process);
        // It has already ended after a takeover.
        let _ = self.first.wait();
    }
}

fn kill(signal: &str, process: u32) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

fn wait_until(description: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "timed out: {description}");
        thread::yield_now();
    }
}

#[test]
fn killed_process_is_replaced() {
    let site = support::site();
    let supervisor = Supervisor::start(site.archive.to_str().unwrap());
    let before = supervisor.processes();
    assert_eq!(before.len(), 2);
    supervisor.check();

    let victim = *before.first().unwrap();
    kill("KILL", victim);
    wait_until("another process to start", || {
        let now = supervisor.processes();
        now.len() == 2 && !now.contains(&victim)
    });
    supervisor.check();
}

#[test]
fn new_program_takes_over() {
    let site = support::site();
    let mut supervisor = Supervisor::start(site.archive.to_str().unwrap());
    let before = supervisor.processes();
    supervisor.check();

    kill("USR2", supervisor.process);
    wait_until("the new program to start", || supervisor.processes().len() == 3);
    let successor = *supervisor.processes().difference(&before).next().unwrap();
    assert_eq!(supervisor.await_address(), supervisor.address, "the same socket");
    assert!(supervisor.first.wait().unwrap().success());

    supervisor.process = successor;
    assert!(supervisor.processes().is_disjoint(&before));
    supervisor.check();
}

#[test]
fn takeover_does_not_wait_for_an_endless_handler() {
    let site = support::site();
    let mut supervisor =
        Supervisor::start_program("program_with_endless_handler", site.archive.to_str().unwrap());
    let before = supervisor.processes();
    let mut stuck = TcpStream::connect(&supervisor.address).unwrap();
    stuck.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    supervisor.await_line("GET /endless: this handler has not returned");

    kill("USR2", supervisor.process);
    wait_until("the new program to start", || supervisor.processes().len() == before.len() + 1);
    let successor = *supervisor.processes().difference(&before).next().unwrap();
    assert!(supervisor.first.wait().unwrap().success());

    supervisor.process = successor;
    let page = supervisor.request("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(page.body, b"<title>Home</title>");
}
