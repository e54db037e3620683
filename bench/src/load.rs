//! Load generators: wrk, ab and h2load, and our own for loads that no packaged tool makes.

mod ab;
mod h2load;
mod loadgen;
mod new_connection;
mod open_loop;
mod steady;
mod wrk;

use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

pub(crate) use ab::run as ab;
pub(crate) use h2load::{Count, hold_idle, run as h2load, run_urls as h2load_urls};
pub(crate) use loadgen::run as loadgen;
pub(crate) use new_connection::Clients;
pub(crate) use open_loop::OpenLoop;
pub(crate) use steady::Steady;
pub(crate) use wrk::run as wrk;

use crate::scenario::Wire;

/// The load on a server.
#[derive(Clone)]
pub(crate) struct Job<'a> {
    pub(crate) address: SocketAddrV4,
    pub(crate) connections: u32,
    pub(crate) duration: Duration,
    /// Processors of the generator, one thread on each.
    pub(crate) processors: &'a str,
    pub(crate) wire: Wire,
    pub(crate) targets: &'a [String],
    /// A file with one target per line, if there are several.
    pub(crate) target_file: Option<&'a Path>,
    /// Request headers in addition to `Host`, each as `Name: value`.
    pub(crate) headers: &'a [String],
    /// The status of every response.
    pub(crate) status: u16,
}

impl Job<'_> {
    /// Returns the URL of the first target.
    pub(crate) fn url(&self) -> String {
        self.url_of(&self.targets[0])
    }

    fn url_of(&self, target: &str) -> String {
        format!("{}://{}{target}", self.wire.scheme(), self.address)
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
#[derive(Debug)]
pub(crate) struct Report {
    /// The number of responses. An integer that only occurs in divisions.
    pub(crate) requests: f64,
    pub(crate) requests_per_s: f64,
    /// Percentiles as in [`crate::metric::PERCENTILES`], if the generator measures them.
    pub(crate) percentiles_us: Option<[f64; 5]>,
    /// Mean bytes of a response's header block over HTTP/2.
    pub(crate) header_bytes: Option<f64>,
}
