//! Bad clients beside good ones: how long ordinary requests wait before an attack and during it, and what the
//! attack costs the server in memory, descriptors and processor time.
//!
//! Each attack meets a server of its own. The figures are printed, and nothing here decides whether they are
//! good; but one ordinary request that goes wrong ends the benchmark.

mod attack;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Instant;

use self::attack::{Attack, Kind};
use super::ordinary::{Visitor, Waits};
use super::report::Report;
use super::server::Running;
use super::{Plan, commands, machine, page, usage};
use crate::error::Error;

/// The processor of the server. Its one thread has all of the attack.
const PROCESSOR: &str = "0";

/// Who takes part on which processors: good clients, bad clients.
const PROCESSORS: (&str, &str) = ("2,3", "1");

/// Seconds for which ordinary requests are alone, before an attack.
const QUIET_SECONDS: u64 = 15;

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
    machine::allow_descriptors()?;
    let server = commands::path("cannery-server")?;
    let archive = page::archive()?;
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
    let visitor = Visitor::new(address, "/", &page::content())?;
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
    usage::await_descriptors(running.process(), before.descriptors)?;
    let after = Standing::of(&running)?;

    for (when, standing) in [("before", &before), ("during", &during), ("after", &after)] {
        report.line(&standing.line(when));
    }
    report.line(&format!("processor {:.1} % during the attack", share * 100.0));
    let p99 = |waits: &[Waits; 2]| [0, 1].map(|kind| waits[kind].permille_of_seconds(990));
    let ([kept, new], [kept_before, new_before]) = (p99(&attacked), p99(&quiet));
    report.line(&format!(
        "p99 of the middle second: kept {kept_before:.0} before, {kept:.0} during: {:.2}; new {new_before:.0} before, \
         {new:.0} during: {:.2}",
        kept / kept_before,
        new / new_before
    ));
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
