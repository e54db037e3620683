//! The engine against the floor: `cannery-server --dummy` and `bench/floor.c` give the same answer, one
//! after the other, on the same processor. What is compared is the processor time for a request: requests
//! a second also depend on how fast the generator asks.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use super::report::Report;
use super::server::{REQUEST, Running};
use super::wrk::{self, Load};
use super::{Plan, commands, machine, median, usage};
use crate::error::Error;

/// What both answer to any request.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n";

const CONNECTIONS: u32 = 64;

/// The processor of the server.
const PROCESSOR: &str = "0";

/// Load before the measured one, so that every connection's memory is warm.
const WARM_UP_SECONDS: u64 = 1;

/// One server's runs.
struct Contender<'a> {
    name: &'static str,
    command: &'a dyn Fn(SocketAddrV4) -> Command,
    microseconds: Vec<f64>,
    rates: Vec<f64>,
}

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    let floor = commands::floor()?;
    let server = commands::path("cannery-server")?;
    let processors = wrk::processors(machine::processors())?;
    let words = format!("cargo xtask bench dummy --rounds {} --seconds {}", plan.rounds, plan.seconds);
    let mut report = Report::new("dummy", &words, &versions(&server));
    report.line(&format!(
        "pinning:  server on processor {PROCESSOR}, wrk on {processors}, {CONNECTIONS} connections"
    ));

    let floor_command = |address: SocketAddrV4| {
        let mut command = Command::new(&floor);
        command.arg(address.port().to_string());
        command
    };
    let dummy_command = |address: SocketAddrV4| {
        let mut command = Command::new(&server);
        command.args(["--dummy", "--threads", "1", "--bind"]).arg(address.to_string());
        command
    };
    let mut contenders = [Contender::new("floor", &floor_command), Contender::new("dummy", &dummy_command)];
    for _ in 0..plan.rounds {
        for contender in &mut contenders {
            contender.run_once(plan.seconds, processors, &mut report)?;
        }
    }
    summarise(&contenders, &mut report);
    report.save()
}

impl<'a> Contender<'a> {
    fn new(name: &'static str, command: &'a dyn Fn(SocketAddrV4) -> Command) -> Contender<'a> {
        Contender { name, command, microseconds: Vec::new(), rates: Vec::new() }
    }

    /// A fresh server, one checked answer, a warm-up, and the timed run.
    fn run_once(&mut self, seconds: u64, processors: &str, report: &mut Report) -> Result<(), Error> {
        let address = machine::free_address()?;
        let server = Running::start(&mut (self.command)(address), PROCESSOR, address)?;
        server.expect(REQUEST, ANSWER)?;
        let load = |seconds| Load::plain(address, CONNECTIONS, seconds);
        load(WARM_UP_SECONDS).run(processors, 200)?;

        let before = usage::processor_time_of_tree(server.process())?;
        let figures = load(seconds).run(processors, 200)?;
        let used = usage::processor_time_of_tree(server.process())?.saturating_sub(before);

        let microseconds = used.as_secs_f64() * 1e6 / figures.requests;
        let rate = figures.requests_per_second;
        report.line(&format!("{:<6} {microseconds:>7.3} us a request {rate:>10.0} requests/s", self.name));
        report.raw(&figures.raw);
        self.microseconds.push(microseconds);
        self.rates.push(rate);
        Ok(())
    }
}

fn summarise(contenders: &[Contender<'_>; 2], report: &mut Report) {
    let medians = contenders.each_ref().map(|contender| median(contender.microseconds.clone()));
    report.line("medians:");
    for (contender, microseconds) in contenders.iter().zip(medians) {
        let rate = median(contender.rates.clone());
        report
            .line(&format!("{:<6} {microseconds:>7.3} us a request {rate:>10.0} requests/s", contender.name));
    }
    let [floor, dummy] = medians;
    report.line(&format!("ratio  {:>7.3}  processor time for a request, dummy to floor", dummy / floor));
}

fn versions(server: &Path) -> Vec<String> {
    vec![
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
        machine::version("gcc", "--version"),
        machine::version("wrk", "--version"),
    ]
}
