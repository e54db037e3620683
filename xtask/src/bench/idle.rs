//! What a connection costs the server that stays open and asks for nothing: memory of its own, beyond the kernel's.
//!
//! Ten thousand connections ask once each, take the answer, and stay. What the server then has more than before
//! them is divided by their number. Before them it has served one, so that nothing else is counted with them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use super::ordinary::Visitor;
use super::report::Report;
use super::server::{REQUEST, Running};
use super::{Plan, commands, machine, median, page, usage};
use crate::error::Error;

const CONNECTIONS: u32 = 10_000;

/// The processor of the server.
const PROCESSOR: &str = "0";

/// Serving threads, and what else the server is told.
const VARIANTS: [(&str, &str, &[&str]); 3] = [
    ("one thread", "1", &[]),
    ("four threads", "4", &[]),
    ("one, counting and logging", "1", &["--admin", "127.0.0.1:0", "--access-log", "/dev/null"]),
];

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    machine::allow_descriptors()?;
    let server = commands::path("cannery-server")?;
    let archive = page::archive()?;
    let words = format!("cargo xtask bench idle --rounds {}", plan.rounds);
    let versions = [
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
    ];
    let mut report = Report::new("idle", &words, &versions);
    report.line(&format!("connections: {CONNECTIONS}, each after one request for 4 KiB"));
    report.line("                           KiB before    during     after   bytes a connection");
    for (name, threads, flags) in VARIANTS {
        let mut each = Vec::new();
        for _ in 0..plan.rounds {
            let bytes = hold(&server, &archive, threads, flags)?;
            let [before, during, after] = bytes.map(|bytes| bytes / 1024);
            let of_connection = bytes[1].saturating_sub(bytes[0]) as f64 / f64::from(CONNECTIONS);
            report.line(&format!("{name:<26} {before:>10} {during:>9} {after:>9} {of_connection:>20.1}"));
            each.push(of_connection);
        }
        report.line(&format!("{name:<26} median {:>43.1}", median(each)));
    }
    report.save()
}

/// The server's own memory in bytes: before the connections come, while they are idle, and when they are gone.
fn hold(server: &Path, archive: &Path, threads: &str, flags: &[&str]) -> Result<[u64; 3], Error> {
    let address = machine::free_address()?;
    let mut command = Command::new(server);
    command.args(["--quiet", "--limit-descriptors", "16384", "--threads", threads]).args(flags);
    command.arg("--bind").arg(address.to_string()).arg("--archive").arg(archive);
    let running = Running::start(&mut command, PROCESSOR, address)?;
    // Asks once, and so learns how long an answer is.
    let visitor = Visitor::new(address, "/", &page::content())?;
    let before = usage::anonymous_bytes(running.process())?;
    let descriptors = usage::descriptors(running.process())?;

    let broken = |source| Error::file(format!("an idle connection to {address}"), source);
    let mut answer = vec![0; visitor.answer_bytes()];
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = TcpStream::connect(address).map_err(broken)?;
        connection.write_all(REQUEST).and_then(|()| connection.read_exact(&mut answer)).map_err(broken)?;
        idle.push(connection);
    }
    let during = usage::anonymous_bytes(running.process())?;
    drop(idle);
    usage::await_descriptors(running.process(), descriptors)?;
    Ok([before, during, usage::anonymous_bytes(running.process())?])
}
