//! All that operators are told, as plain values: of one process, or of several together.
//!
//! No sum of them can overflow, whatever another process may say.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::metrics::{Counters, Snapshot};
use crate::status::{Release, SiteStatus, Status};

/// All that operators are told.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The numbers of the processes that serve.
    pub(crate) processes: Vec<u32>,
    pub(crate) threads: usize,
    /// Of the one that has served longest.
    pub(crate) uptime_seconds: f64,
    /// Whether new connections are not wanted any more, by one of them at least.
    pub(crate) draining: bool,
    /// New releases that were taken up, and those that were refused; each process counts its own.
    pub(crate) reloads: Reloads,
    /// Each site, and twice where two processes serve different releases of it.
    pub(crate) sites: Vec<SiteFigures>,
    pub(crate) counted: Snapshot,
}

/// What became of new releases.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Reloads {
    pub(crate) served: u64,
    pub(crate) refused: u64,
}

/// A site, and its releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteFigures {
    /// Nothing for the default.
    pub(crate) host: Option<String>,
    pub(crate) path: String,
    pub(crate) current: ReleaseFigures,
    pub(crate) previous: Option<ReleaseFigures>,
}

/// What an archive says of itself, and since when it is served, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReleaseFigures {
    pub(crate) serial: u64,
    pub(crate) digest: String,
    pub(crate) paths: u64,
    pub(crate) bodies: u64,
    pub(crate) bytes: u64,
    pub(crate) since: u64,
}

impl Figures {
    /// Those of this process.
    pub(crate) fn of(workers: &[Arc<Counters>], status: &Status) -> Figures {
        let (served, refused) = status.reloads();
        let mut counted = Snapshot::of(workers);
        counted.log_lines_dropped = counted.log_lines_dropped.saturating_add(status.log_lines_lost());
        Figures {
            processes: vec![std::process::id()],
            threads: workers.len(),
            uptime_seconds: status.started.elapsed().as_secs_f64(),
            draining: status.is_draining(),
            reloads: Reloads { served, refused },
            sites: status.sites().iter().map(SiteFigures::of).collect(),
            counted,
        }
    }

    /// Whether somebody serves, and wants connections.
    pub(crate) fn is_ready(&self) -> bool {
        !self.draining && !self.processes.is_empty()
    }

    /// Adds those of another process, which serves.
    pub(crate) fn add(&mut self, other: &Figures) {
        self.processes.extend(&other.processes);
        self.threads = self.threads.saturating_add(other.threads);
        self.uptime_seconds = self.uptime_seconds.max(other.uptime_seconds);
        self.draining |= other.draining;
        for site in &other.sites {
            let is_same =
                |known: &SiteFigures| known.host == site.host && known.current.digest == site.current.digest;
            if !self.sites.iter().any(is_same) {
                self.sites.push(site.clone());
            }
        }
        self.add_counted(other);
    }

    /// Adds what another process has counted, whether it still serves or not.
    pub(crate) fn add_counted(&mut self, other: &Figures) {
        self.reloads.served = self.reloads.served.saturating_add(other.reloads.served);
        self.reloads.refused = self.reloads.refused.saturating_add(other.reloads.refused);
        self.counted.merge(&other.counted);
    }
}

impl SiteFigures {
    fn of(site: &SiteStatus) -> SiteFigures {
        SiteFigures {
            host: site.host.clone(),
            path: site.path.to_string_lossy().into_owned(),
            current: ReleaseFigures::of(&site.current),
            previous: site.previous.as_ref().map(ReleaseFigures::of),
        }
    }
}

impl ReleaseFigures {
    fn of(release: &Release) -> ReleaseFigures {
        let facts = &release.facts;
        ReleaseFigures {
            serial: facts.serial,
            digest: facts.digest.to_string(),
            paths: facts.paths,
            bodies: facts.bodies,
            bytes: facts.file_bytes,
            since: release.since,
        }
    }
}
