//! What it costs to count and to log: a server with metrics and access log, and one without, at the same time on the
//! same processor.
//!
//! They take turns by the scheduler's slices, so that whatever else the machine does meets both alike. Requests
//! look like a browser's, since a line of the log repeats what they say of themselves. The log goes to a file, and the
//! time of the thread that writes it counts.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::ordinary::Visitor;
use super::report::Report;
use super::server::Running;
use super::wrk::{self, Load};
use super::{Plan, commands, machine, median, page, usage};
use crate::error::Error;
use crate::project;

/// The processor of both servers.
const PROCESSOR: &str = "0";

/// Connections to each server.
const CONNECTIONS: u32 = 64;

/// Load before the measured one, so that every connection's memory is warm.
const WARM_UP_SECONDS: u64 = 1;

/// What servers are told besides, without the name of the log, which follows a last `--access-log`.
const VARIANTS: [(&str, &[&str]); 4] = [
    ("off", &[]),
    ("metrics", &["--admin", "127.0.0.1:0"]),
    ("log", &["--access-log"]),
    ("both", &["--admin", "127.0.0.1:0", "--access-log"]),
];

/// What the load generator's requests say of themselves.
const FIELDS: [&str; 5] = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Referer: http://127.0.0.1/somewhere/else.html",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-US,en;q=0.5",
    "Accept-Encoding: gzip, deflate, br, zstd",
];

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    let server = commands::path("cannery-server")?;
    let archive = page::archive()?;
    let processors = wrk::processors(machine::processors())?;
    let words = format!("cargo xtask bench observe --rounds {} --seconds {}", plan.rounds, plan.seconds);
    let versions = [
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
        machine::version("wrk", "--version"),
    ];
    let mut report = Report::new("observe", &words, &versions);
    report.line(&format!(
        "pinning:  servers on processor {PROCESSOR}, a wrk for each on {processors}, {CONNECTIONS} connections"
    ));

    let mut ratios: [Vec<f64>; VARIANTS.len()] = Default::default();
    for round in 0..plan.rounds {
        for variant in 1..VARIANTS.len() {
            // Each is as often the first to start.
            let order = if round % 2 == 0 { [0, variant] } else { [variant, 0] };
            let mut microseconds = [0.0; VARIANTS.len()];
            for (variant, figure) in measure(&server, &archive, order, plan.seconds, processors)? {
                microseconds[variant] = figure;
            }
            let ratio = microseconds[variant] / microseconds[0];
            report.line(&format!(
                "off {:.3}, {} {:.3} us a request: {ratio:.3}",
                microseconds[0], VARIANTS[variant].0, microseconds[variant]
            ));
            ratios[variant].push(ratio);
        }
    }
    for ((name, _), ratios) in VARIANTS.iter().zip(ratios).skip(1) {
        let (ratio, rounds) = (median(ratios), plan.rounds);
        report.line(&format!(
            "{name:<8} {ratio:.3}  processor time for a request to that without, median of {rounds}"
        ));
    }
    report.save()
}

/// Two servers under load at the same time: each with its processor time for a request, in microseconds.
fn measure(
    server: &Path,
    archive: &Path,
    order: [usize; 2],
    seconds: u64,
    processors: &str,
) -> Result<Vec<(usize, f64)>, Error> {
    let servers = order.map(|variant| Contender::start(server, archive, variant));
    let servers = servers.into_iter().collect::<Result<Vec<_>, _>>()?;
    run_together(&servers, WARM_UP_SECONDS, processors)?;
    let before = servers.iter().map(Contender::processor_time).collect::<Result<Vec<_>, _>>()?;
    let requests = run_together(&servers, seconds, processors)?;
    let figure = |((server, before), requests): ((&Contender, f64), f64)| {
        Ok((server.variant, (server.processor_time()? - before) / requests))
    };
    servers.iter().zip(before).zip(requests).map(figure).collect()
}

/// One of two servers that run at the same time.
struct Contender {
    running: Running,
    address: SocketAddrV4,
    variant: usize,
    log: PathBuf,
}

impl Contender {
    /// Starts a server, and checks one answer.
    fn start(server: &Path, archive: &Path, variant: usize) -> Result<Contender, Error> {
        let (name, flags) = VARIANTS[variant];
        let log = project::outside().join(format!("access-{name}.log"));
        let address = machine::free_address()?;
        let mut command = Command::new(server);
        command.args(["--quiet", "--threads", "1", "--bind"]).arg(address.to_string());
        command.arg("--archive").arg(archive).args(flags);
        if flags.ends_with(&["--access-log"]) {
            command.arg(&log);
        }
        let running = Running::start(&mut command, PROCESSOR, address)?;
        Visitor::new(address, "/", &page::content())?;
        Ok(Contender { running, address, variant, log })
    }

    /// Of all its threads so far, in microseconds.
    fn processor_time(&self) -> Result<f64, Error> {
        usage::processor_time_of_tree(self.running.process()).map(|time| time.as_secs_f64() * 1e6)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // There is none where nothing was logged. It has gigabytes after some minutes.
        let _ = fs::remove_file(&self.log);
    }
}

/// The same load on both servers at a time; tells how many requests each has answered.
fn run_together(servers: &[Contender], seconds: u64, processors: &str) -> Result<Vec<f64>, Error> {
    let fields = FIELDS.map(str::to_owned);
    thread::scope(|scope| {
        let run = |server: &Contender| {
            let load = Load { fields: &fields, ..Load::plain(server.address, CONNECTIONS, seconds) };
            scope.spawn(move || load.run(processors, 200).map(|loaded| loaded.requests))
        };
        let loads: Vec<_> = servers.iter().map(run).collect();
        loads.into_iter().map(|load| load.join().expect("a load does not panic")).collect()
    })
}
