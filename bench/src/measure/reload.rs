//! Latency while a server loads a new release of 250,000 tiles: opens it, reads it completely, replaces the old one,
//! and unmaps that.
//!
//! Quiet windows alternate with windows that have a reload, so noise of the machine is in both. A symlink switches
//! between two copies of one archive, so no file is written meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::Context;
use crate::latency::Latencies;
use crate::load::Steady;
use crate::machine::{self, wait_until};
use crate::metric::Metric;
use crate::process::Server;
use crate::project;
use crate::results::Samples;
use crate::site::Site;

/// Processors of the server by step.
const SERVER_PROCESSORS: [(&str, &str); 2] = [("two processors", "0,1"), ("one processor", "0")];

/// Requests that take longer are counted.
const SLOW: Duration = Duration::from_millis(5);

/// Limit for loading a release after a window.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time from the start of a window to its reload.
const RELOAD_AFTER: Duration = Duration::from_millis(500);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let releases = Releases::create(context.site())?;
    let mut samples = Samples::default();
    for (step, processors) in SERVER_PROCESSORS {
        measure(context, &releases, step, processors, &mut samples)?;
    }
    Ok(samples)
}

fn measure(
    context: &Context<'_>,
    releases: &Releases,
    step: &str,
    processors: &str,
    samples: &mut Samples,
) -> Result<()> {
    releases.switch_to(0)?;
    let current = Site { archive: releases.current.clone(), ..context.site().clone() };
    let context = Context { site: Some(&current), ..*context };
    let spec = context.servers.get("cannery")?;
    let server = spec.start(&context.launch(&context.scenario.steps[0]), processors)?;
    if processors == "0" {
        // Under `chrt --fifo` the worker and the reading thread would not share the processor by time slices.
        let mut chrt = Command::new("chrt");
        project::run(chrt.args(["--other", "--all-tasks", "--pid", "0", &server.id().to_string()]))?;
    }

    let clients = Steady::new(&server, &current, current.targets.last().context("the site has tiles")?)?;
    let client_processors = context.client_processors()?;
    let window = |release: Option<usize>| {
        let before = server.cpu_time()?;
        let clients = |_: &_| clients.run(context.duration(), client_processors);
        let ((), latencies) = machine::during(clients, || {
            if let Some(number) = release {
                thread::sleep(RELOAD_AFTER.min(context.duration() / 2));
                releases.switch_to(number)?;
                server.signal(Signal::HUP)?;
            }
            Ok(())
        })?;

        let latencies = Latencies::new(latencies.concat());
        let mut sample = latencies.sample();
        sample.push((Metric::Above5Ms, latencies.count_above(SLOW) as f64));
        sample.push((Metric::Requests, latencies.len() as f64));
        sample.push((Metric::CpuMs, server.cpu_seconds_since(before)? * 1e3));
        anyhow::Ok(sample)
    };
    for round in 1..=context.plan.rounds() {
        samples.record(step, "quiet", Ok(window(None)?));
        let number = usize::from(round % 2 == 1);
        samples.record(step, "reload", Ok(window(Some(number))?));
        releases.wait_until_mapped(&server, number)?;
    }
    Ok(())
}

/// Two copies of an archive and a symlink to one of them.
struct Releases {
    copies: [PathBuf; 2],
    current: PathBuf,
}

impl Releases {
    fn create(site: &Site) -> Result<Releases> {
        let copies = [project::scratch("releases/first.cdb")?, project::scratch("releases/second.cdb")?];
        for copy in &copies {
            fs::copy(&site.archive, copy)?;
        }
        // The kernel lists mapped files by their path without symlinks.
        let copies = [copies[0].canonicalize()?, copies[1].canonicalize()?];
        Ok(Releases { copies, current: project::scratch("releases/current.cdb")? })
    }

    /// Switches the symlink atomically.
    fn switch_to(&self, number: usize) -> Result<()> {
        let next = self.current.with_extension("next");
        let _ = fs::remove_file(&next);
        symlink(&self.copies[number], &next)?;
        fs::rename(&next, &self.current).context("cannot switch the release")
    }

    /// Waits until the server has this copy mapped and not the other one.
    fn wait_until_mapped(&self, server: &Server, number: usize) -> Result<()> {
        let is_loaded = || {
            let maps = fs::read_to_string(format!("/proc/{}/maps", server.id()))?;
            let is_mapped = |copy: &PathBuf| maps.contains(&copy.display().to_string());
            Ok(is_mapped(&self.copies[number]) && !is_mapped(&self.copies[1 - number]))
        };
        wait_until(TIMEOUT, Duration::from_millis(20), is_loaded).context("the release isn't loaded")
    }
}
