//! Bad clients beside good ones: how long ordinary requests wait before an attack and during it, and what the
//! attack costs the server in memory, descriptors and processor time.
//!
//! Each attack meets a server of its own. The figures are printed, and nothing here decides whether they are
//! good; but one ordinary request that goes wrong ends the benchmark.

mod attack;
mod ordinary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use self::attack::{Attack, Kind};
use self::ordinary::{Visitor, Waits};
use super::report::Report;
use super::server::Running;
use super::{Plan, commands, docs, machine, usage};
use crate::error::Error;
use crate::project;

/// The processor of the server. Its one thread has all of the attack.
const PROCESSOR: usize = 0;

/// Who takes part on which processors: good clients, bad clients.
const PROCESSORS: (&str, &str) = ("2,3", "1");

/// The page that ordinary requests ask for, in bytes, and the file that slow readers do.
const PAGE_BYTES: usize = 4 * 1024;
const LARGE_BYTES: usize = 16 * 1024 * 1024;

/// Seconds for which ordinary requests are alone, before an attack.
const QUIET_SECONDS: u64 = 15;

/// How long descriptors may take to come back: the server lingers for some seconds over an end that the peer
/// has not seen.
const PATIENCE: Duration = Duration::from_secs(15);

/// The attacks, each with its name, and how many connections it has.
const ATTACKS: [(&str, Kind, u64); 4] = [
    ("slow heads", Kind::SlowHead, 10_000),
    ("slow readers", Kind::SlowReader, 1000),
    ("idle connections", Kind::Idle, 10_000),
    ("resets", Kind::Reset, 1),
];

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    if machine::processors() < 4 {
        return Err(Error::Missing {
            what: "four processors".into(),
            remedy: "server, good and bad clients on fewer would measure each other".into(),
        });
    }
    allow_descriptors()?;
    let server = commands::path("cannery-server")?;
    let archive = archive()?;
    let words = format!("cargo xtask bench hostile --seconds {}", plan.seconds);
    let versions = [
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
    ];
    let mut report = Report::new("hostile", &words, &versions);
    let (good, bad) = PROCESSORS;
    report
        .line(&format!("pinning:  server on processor {PROCESSOR}, attack on {bad}, good clients on {good}"));
    report.line("asked:    2,000 a second on two connections, and 200 a second on a new one each, for 4 KiB");
    for attack in ATTACKS {
        meet(&server, &archive, attack, plan.seconds, &mut report)?;
    }
    report.save()
}

/// One attack on a fresh server.
fn meet(
    server: &Path,
    archive: &Path,
    (name, kind, connections): (&str, Kind, u64),
    seconds: u64,
    report: &mut Report,
) -> Result<(), Error> {
    let address = machine::free_address()?;
    let mut command = Command::new(server);
    command.args(["--quiet", "--threads", "1", "--limit-descriptors", "16384", "--bind"]);
    command.arg(address.to_string()).arg("--archive").arg(archive);
    let running = Running::start(&mut command, PROCESSOR, address)?;
    let visitor = Visitor::new(address, &bytes(PAGE_BYTES))?;
    let (good, bad) = PROCESSORS;

    report.line("");
    report.line(&format!("{name}, {connections} at a time"));
    report.line("               waits in us: requests     p50      p99    p99.9   longest");
    let before = Standing::of(&running)?;
    let quiet = ask(&visitor, seconds.min(QUIET_SECONDS), good, "before", report)?;
    let attack = Attack::begin(kind, address, connections, bad);
    let processor = usage::processor_time_of_tree(running.process())?;
    let started = Instant::now();
    let attacked = ask(&visitor, seconds, good, "during", report)?;
    let share = (usage::processor_time_of_tree(running.process())?.saturating_sub(processor)).as_secs_f64()
        / started.elapsed().as_secs_f64();
    let during = Standing::of(&running)?;
    let tally = attack.tally();
    let [opened, ended, failed] =
        [&tally.opened, &tally.ended, &tally.failed].map(|count| count.load(Ordering::Relaxed));
    report.line(&format!("bad connections: {opened} opened, {ended} ended by the server, {failed} failed"));
    attack.end()?;
    let after = settled(&running, &before)?;

    for (when, standing) in [("before", &before), ("during", &during), ("after", &after)] {
        report.line(&standing.line(when));
    }
    report.line(&format!("processor {:.1} % during the attack", share * 100.0));
    let ratios = [0, 1].map(|kind| attacked[kind].permille(990) / quiet[kind].permille(990));
    report.line(&format!("p99 during to before: {:.2} kept, {:.2} new", ratios[0], ratios[1]));
    Ok(())
}

/// Ordinary requests for some time: on connections that are kept, and on new ones.
fn ask(
    visitor: &Visitor,
    seconds: u64,
    processors: &'static str,
    when: &str,
    report: &mut Report,
) -> Result<[Waits; 2], Error> {
    let (kept, new) = visitor.ask(seconds, processors)?;
    report.line(&format!("{when:<7} kept connections    {}", kept.line()));
    report.line(&format!("{when:<7} new connections     {}", new.line()));
    Ok([kept, new])
}

/// What a server holds at a moment.
struct Standing {
    descriptors: usize,
    memory_bytes: u64,
    /// What the kernel holds for all sockets of the machine.
    kernel_bytes: u64,
}

impl Standing {
    fn of(running: &Running) -> Result<Standing, Error> {
        Ok(Standing {
            descriptors: usage::descriptors(running.process())?,
            memory_bytes: usage::anonymous_bytes(running.process())?,
            kernel_bytes: usage::kernel_tcp_bytes()?,
        })
    }

    fn line(&self, when: &str) -> String {
        format!(
            "{when:<7} descriptors {:>6}, memory {:>7} KiB, the kernel's for sockets {:>8} KiB",
            self.descriptors,
            self.memory_bytes / 1024,
            self.kernel_bytes / 1024
        )
    }
}

/// Waits until the server has as many descriptors as before, or has had the time to.
fn settled(running: &Running, before: &Standing) -> Result<Standing, Error> {
    let started = Instant::now();
    loop {
        let now = Standing::of(running)?;
        if now.descriptors <= before.descriptors || started.elapsed() > PATIENCE {
            return Ok(now);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A site of a page and a large file, built once for each run.
fn archive() -> Result<PathBuf, Error> {
    let sources = project::outside().join("hostile");
    fs::create_dir_all(&sources).map_err(|source| Error::file(&sources, source))?;
    for (name, length) in [("index.html", PAGE_BYTES), ("large.bin", LARGE_BYTES)] {
        let path = sources.join(name);
        fs::write(&path, bytes(length)).map_err(|source| Error::file(&path, source))?;
    }
    let archive = project::outside().join("hostile.cdb");
    docs::build(&commands::path("cannery-archiver")?, &sources, &archive, Some("identity"))?;
    Ok(archive)
}

/// Letters that do not repeat soon, the same each time.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 33).to_le_bytes()[0] % 26
    };
    (0..length).map(|_| letter()).collect()
}

/// Puts the calling thread on some processors.
fn pin(processors: &str) -> Result<(), Error> {
    let path = "/proc/thread-self";
    let link = fs::read_link(path).map_err(|source| Error::file(path, source))?;
    let thread = link.file_name().unwrap_or_default();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "--pid", processors]).arg(thread).stdout(Stdio::null());
    project::run(&mut command)
}

/// Lets this process have a descriptor for each connection of an attack.
fn allow_descriptors() -> Result<(), Error> {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=16384:", "--pid"]).arg(std::process::id().to_string());
    project::run(&mut command)
}
