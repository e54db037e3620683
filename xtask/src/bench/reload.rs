//! How long ordinary requests wait while a new release of 250,000 tiles is taken up: opened, read from end to end,
//! put in the place of the old one, and the old one let go.
//!
//! Windows in which nothing happens alternate with windows in which the release changes, so that what the machine
//! does besides is in both. Between two copies of one archive a symlink is turned: nothing is written meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::ordinary::{Visitor, Waits};
use super::report::Report;
use super::server::Running;
use super::{Plan, commands, docs, machine, median, tiles, usage};
use crate::error::Error;
use crate::project;
use crate::tiles::{COUNT, Pyramid, SEED};

/// Where the server runs: with a processor for the thread that reads the release, and without.
const SERVERS: [(&str, &str); 2] = [("two processors", "0,1"), ("one processor", "0")];

/// Where ordinary requests come from.
const VISITORS: &str = "2,3";

/// A request that waits longer is counted.
const BOUND_US: f64 = 5000.0;

/// How far into its window a release changes.
const CHANGE_AFTER: Duration = Duration::from_millis(500);

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    if machine::processors() < 4 {
        return Err(Error::Missing {
            what: "four processors".into(),
            remedy: "server and visitors on fewer would measure each other".into(),
        });
    }
    let server = commands::path("cannery-server")?;
    let pyramid = Pyramid::new(COUNT, SEED);
    let releases = Releases::make(&pyramid)?;
    let words = format!("cargo xtask bench reload --rounds {} --seconds {}", plan.rounds, plan.seconds);
    let versions = [
        machine::version(&server.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
    ];
    let mut report = Report::new("reload", &words, &versions);
    report.line(&format!("archive:  {COUNT} tiles, {} bytes", releases.bytes()?));
    report.line(
        "asked:    2,000 a second on two connections, and 200 a second on a new one each, for one tile",
    );
    if machine::is_real_time() {
        report.line("priority: real time, but for the server on one processor, whose threads take turns");
    }
    for (name, processors) in SERVERS {
        report.line("");
        report.line(&format!("server on {name}, visitors on {VISITORS}"));
        measure(&server, processors, &pyramid, &releases, plan, &mut report)?;
    }
    report.save()
}

fn measure(
    server: &Path,
    processors: &str,
    pyramid: &Pyramid,
    releases: &Releases,
    plan: Plan,
    report: &mut Report,
) -> Result<(), Error> {
    releases.turn_to(0)?;
    let address = machine::free_address()?;
    let mut command = if machine::is_real_time() && processors == "0" {
        let mut command = Command::new("chrt");
        command.args(["--other", "0"]).arg(server);
        command
    } else {
        Command::new(server)
    };
    command.args(["--quiet", "--threads", "1", "--bind"]).arg(address.to_string());
    command.arg("--archive").arg(&releases.current);
    let running = Running::start(&mut command, processors, address)?;
    let tile = pyramid.count() - 1;
    let target = format!("/{}", pyramid.path(tile));
    let visitor = Visitor::new(address, &target, &pyramid.content(pyramid.content_of(tile)))?;

    report.line("         waits in us: requests     p50      p99    p99.9   longest  processor ms");
    let (mut quiet, mut changing) = (Windows::default(), Windows::default());
    for round in 1..=plan.rounds {
        quiet.add("quiet", &window(&running, &visitor, plan.seconds, || Ok(()))?, report);
        let number = usize::from(round % 2 == 1);
        let change = || {
            thread::sleep(CHANGE_AFTER);
            releases.turn_to(number)?;
            project::run(Command::new("kill").arg("-HUP").arg(running.process().to_string()))
        };
        changing.add("reload", &window(&running, &visitor, plan.seconds, change)?, report);
        releases.expect_served(&running, number)?;
    }
    for (name, windows) in [("quiet", &quiet), ("reload", &changing)] {
        report.line(&format!(
            "{name:<7} longest wait: median {:.0} us; {} requests above {BOUND_US:.0} us; processor {:.0} ms",
            median(windows.longest.clone()),
            windows.above_bound,
            median(windows.processor_ms.clone())
        ));
    }
    Ok(())
}

/// What ordinary requests met in some time, and what the server used meanwhile, in milliseconds.
fn window(
    running: &Running,
    visitor: &Visitor,
    seconds: u64,
    happening: impl FnOnce() -> Result<(), Error> + Send,
) -> Result<(Waits, f64), Error> {
    let before = usage::processor_time_of_tree(running.process())?;
    let (waits, happened) = thread::scope(|scope| {
        let happening = scope.spawn(happening);
        (visitor.ask(seconds, VISITORS), happening.join().expect("what happens does not panic"))
    });
    happened?;
    let (kept, new) = waits?;
    let used = usage::processor_time_of_tree(running.process())?.saturating_sub(before);
    Ok((kept.with(new), used.as_secs_f64() * 1e3))
}

/// What all windows of a kind showed.
#[derive(Default)]
struct Windows {
    /// In microseconds.
    longest: Vec<f64>,
    above_bound: usize,
    processor_ms: Vec<f64>,
}

impl Windows {
    fn add(&mut self, name: &str, (waits, processor_ms): &(Waits, f64), report: &mut Report) {
        report.line(&format!("{name:<20} {} {processor_ms:>13.0}", waits.line()));
        self.longest.push(waits.permille(1000));
        self.above_bound += waits.above(BOUND_US);
        self.processor_ms.push(*processor_ms);
    }
}

/// Two copies of an archive, and a symlink to one of them.
struct Releases {
    copies: [PathBuf; 2],
    current: PathBuf,
}

impl Releases {
    fn make(pyramid: &Pyramid) -> Result<Releases, Error> {
        let sources = tiles::sources(pyramid)?;
        let names = ["tiles-first.cdb", "tiles-second.cdb"];
        let copies = names.map(|name| project::outside().join(name));
        docs::build(&commands::path("cannery-archiver")?, &sources, &copies[0], Some("identity"))?;
        fs::copy(&copies[0], &copies[1]).map_err(|source| Error::file(&copies[1], source))?;
        // The kernel tells what is mapped by its path without symlinks.
        let folder = project::outside().canonicalize();
        let folder = folder.map_err(|source| Error::file(project::outside(), source))?;
        let copies = names.map(|name| folder.join(name));
        Ok(Releases { copies, current: folder.join("tiles-current.cdb") })
    }

    fn bytes(&self) -> Result<u64, Error> {
        let path = &self.copies[0];
        fs::metadata(path).map(|metadata| metadata.len()).map_err(|source| Error::file(path, source))
    }

    /// Makes one of the copies the current one, in one step.
    fn turn_to(&self, number: usize) -> Result<(), Error> {
        let next = self.current.with_extension("next");
        let failed = |source| Error::file(&next, source);
        if next.symlink_metadata().is_ok() {
            fs::remove_file(&next).map_err(failed)?;
        }
        symlink(&self.copies[number], &next).map_err(failed)?;
        fs::rename(&next, &self.current).map_err(failed)
    }

    /// Fails unless the server has this copy mapped, and no other.
    fn expect_served(&self, running: &Running, number: usize) -> Result<(), Error> {
        let path = format!("/proc/{}/maps", running.process());
        let maps = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let is_mapped = |copy: &PathBuf| maps.contains(&copy.display().to_string());
        if is_mapped(&self.copies[number]) && !is_mapped(&self.copies[1 - number]) {
            return Ok(());
        }
        Err(Error::Unexpected {
            what: path,
            expected: "the new release mapped, and the old one no more".into(),
            got: maps.lines().filter(|line| line.contains(".cdb")).collect::<Vec<_>>().join("; "),
        })
    }
}
