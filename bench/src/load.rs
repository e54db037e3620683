//! Load generators: wrk, ab and h2load, and our own for loads that no packaged tool makes.
//!
//! Each fails if its report has a single error or a wrong status.

mod ab;
mod h2load;
mod loadgen;
mod loadgen_udp;
mod s_time;
mod steady;
mod wrk;

use std::fs;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) use ab::run as ab;
pub(crate) use h2load::{IdleClients, run as h2load};
pub(crate) use loadgen::{build as build_loadgen, run as loadgen};
pub(crate) use loadgen_udp::{Pace, build as build_loadgen_udp, run as loadgen_udp};
pub(crate) use s_time::run as s_time;
pub(crate) use steady::{Steady, Timings, at_rate};
pub(crate) use wrk::run as wrk;

use crate::certificates;
use crate::metric::PERCENTILES;
use crate::newer_debian;
use crate::programs;
use crate::project;
use crate::results::Sample;
use crate::scenario::{KeyExchange, Wire};

/// The load on a server.
#[derive(Clone)]
pub(crate) struct Job<'a> {
    pub(crate) address: SocketAddrV4,
    pub(crate) connections: u32,
    pub(crate) duration: Duration,
    /// Processors of the generator, one thread on each.
    pub(crate) processors: &'a str,
    pub(crate) wire: Wire,
    /// The key exchange to offer, with the TLS library of the newer Debian; if absent, X25519 with the system's.
    pub(crate) key_exchange: Option<KeyExchange>,
    pub(crate) targets: &'a [String],
    /// Request headers in addition to `Host`, each as `Name: value`.
    pub(crate) headers: &'a [String],
    /// The status of every response.
    pub(crate) status: u16,
    /// Whether responses to the same request differ in length.
    pub(crate) lengths_vary: bool,
}

impl Job<'_> {
    /// Returns the URL of a target.
    fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.wire.scheme(), self.address)
    }

    /// Returns a command that starts a generator which uses OpenSSL, with its settings, on the job's processors.
    fn openssl_client(&self, name: &str) -> Result<Command> {
        let Some(group) = self.key_exchange else {
            let mut command = project::pinned(self.processors, name);
            command.env("OPENSSL_CONF", certificates::openssl_settings());
            return Ok(command);
        };
        // The OpenSSL of the system may not have the group.
        let path = programs::find(name).with_context(|| format!("{name} is not installed"))?;
        let program = newer_debian::command(path)?;
        let mut command = project::pinned(self.processors, program.get_program());
        command.args(program.get_args()).env("OPENSSL_CONF", certificates::openssl_settings_with(group)?);
        Ok(command)
    }

    /// Writes all targets to a file, one per line, each as `line` formats it. Returns the file's path.
    fn write_targets(&self, name: &str, line: impl Fn(&str) -> String) -> Result<PathBuf> {
        let lines: String = self.targets.iter().map(|target| line(target) + "\n").collect();
        let path = project::scratch(name)?;
        fs::write(&path, lines)?;
        Ok(path)
    }

    fn threads(&self) -> usize {
        self.processors.split(',').count()
    }

    /// Returns the duration for tools that accept only whole seconds.
    fn seconds(&self) -> u64 {
        self.duration.as_secs().max(1)
    }
}

/// The report of a run without a single error.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The number of responses. An integer that only occurs in divisions.
    pub(crate) requests: f64,
    pub(crate) requests_per_s: f64,
    /// Percentiles of latency, if the generator measures them.
    pub(crate) percentiles: Sample,
    /// Mean bytes of a response's header block over HTTP/2.
    pub(crate) header_bytes: Option<f64>,
}

/// Returns the number after a name at the beginning of a line of a report.
fn number(report: &str, name: &str) -> Result<f64> {
    let rest = report.lines().find_map(|line| line.trim().strip_prefix(name));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("no number after `{name}`: {report}"))
}

/// Returns the numbers after the names of [`PERCENTILES`], each a number of `unit_us` microseconds.
fn percentiles(report: &str, names: [&str; 5], unit_us: f64) -> Result<Sample> {
    let named = PERCENTILES.into_iter().zip(names);
    named.map(|(metric, name)| Ok((metric, number(report, name)? * unit_us))).collect()
}
