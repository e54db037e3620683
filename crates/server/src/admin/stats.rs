//! All that operators are told, as plain values: of one process, or of several together.
//!
//! No sum of them can overflow, whatever another process may say.

use std::sync::Arc;

use cannery_eventloop::Address;
use cannery_secure::Summary;
use serde::{Deserialize, Serialize};

use crate::config::ListenerKind;
use crate::observe::process_usage::{ProcessUsage, processor_seconds};
use crate::observe::{Counters, Release, SiteStatus, Snapshot, Status};

/// All that operators are told.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// The numbers of the processes that serve.
    pub(crate) processes: Vec<u32>,
    pub(crate) threads: usize,
    /// Of the one that has served longest.
    pub(super) uptime_seconds: f64,
    /// Whether new connections are not wanted any more, by one of them at least.
    pub(crate) draining: bool,
    /// New releases that were taken up, and those that were refused; each process counts its own.
    pub(crate) reloads: Reloads,
    /// Processor time of all processes, also of those that have ended.
    pub(crate) processor_seconds: f64,
    /// What the processes take of the machine.
    pub(crate) process: ProcessUsage,
    pub(crate) listeners: Vec<ListenerStats>,
    pub(crate) certificates: Vec<CertificateStats>,
    /// Each site, and twice where two processes serve different releases of it.
    pub(crate) sites: Vec<SiteStats>,
    pub(crate) counted: Snapshot,
}

/// What became of new releases.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Reloads {
    pub(crate) served: u64,
    pub(crate) refused: u64,
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListenerStats {
    pub(super) is_tls: bool,
    pub(crate) address: String,
}

/// A certificate that is shown to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateStats {
    /// The first DNS name that it is for.
    pub(crate) name: String,
    /// The file of its chain.
    pub(crate) file: String,
    /// When it expires, in seconds since 1970.
    pub(super) not_after: i64,
}

/// A site, and its releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteStats {
    /// Nothing for the default.
    pub(crate) host: Option<String>,
    pub(crate) path: String,
    pub(crate) current: ReleaseStats,
    pub(crate) previous: Option<ReleaseStats>,
}

/// What an archive says of itself, and since when it is served, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReleaseStats {
    pub(crate) serial: u64,
    pub(crate) digest: String,
    pub(crate) paths: u64,
    pub(crate) bodies: u64,
    pub(crate) bytes: u64,
    pub(crate) since: u64,
}

impl Stats {
    /// Those of this process.
    pub(crate) fn of(workers: &[Arc<Counters>], status: &Status) -> Stats {
        let (served, refused) = status.reloads();
        let mut counted = Snapshot::of(workers);
        counted.log_lines_dropped = counted.log_lines_dropped.saturating_add(status.log_lines_lost());
        Stats {
            processes: vec![std::process::id()],
            threads: workers.len(),
            uptime_seconds: status.started.elapsed().as_secs_f64(),
            draining: status.is_draining(),
            reloads: Reloads { served, refused },
            processor_seconds: processor_seconds(),
            process: ProcessUsage::of(&status.process, status.started_unix),
            listeners: status.listeners().iter().map(ListenerStats::of).collect(),
            certificates: status.certificates().iter().map(CertificateStats::of).collect(),
            sites: status.sites().iter().map(SiteStats::of).collect(),
            counted,
        }
    }

    /// Whether somebody serves, and wants connections.
    pub(crate) fn is_ready(&self) -> bool {
        !self.draining && !self.processes.is_empty()
    }

    /// Adds those of another process, which serves.
    pub(crate) fn add(&mut self, other: &Stats) {
        self.processes.extend(&other.processes);
        self.threads = self.threads.saturating_add(other.threads);
        self.uptime_seconds = self.uptime_seconds.max(other.uptime_seconds);
        self.draining |= other.draining;
        self.process.add(&other.process);
        for listener in &other.listeners {
            if !self.listeners.contains(listener) {
                self.listeners.push(listener.clone());
            }
        }
        self.add_certificates(&other.certificates);
        for site in &other.sites {
            let is_same =
                |known: &SiteStats| known.host == site.host && known.current.digest == site.current.digest;
            if !self.sites.iter().any(is_same) {
                self.sites.push(site.clone());
            }
        }
        self.add_counted(other);
    }

    /// Adds those of another process, each file once: of two certificates in it, the one that expires first.
    fn add_certificates(&mut self, others: &[CertificateStats]) {
        for other in others {
            let is_same =
                |known: &&mut CertificateStats| known.file == other.file && known.name == other.name;
            match self.certificates.iter_mut().find(is_same) {
                Some(known) => known.not_after = known.not_after.min(other.not_after),
                None => self.certificates.push(other.clone()),
            }
        }
    }

    /// Adds what another process has counted, whether it still serves or not.
    pub(super) fn add_counted(&mut self, other: &Stats) {
        self.reloads.served = self.reloads.served.saturating_add(other.reloads.served);
        self.reloads.refused = self.reloads.refused.saturating_add(other.reloads.refused);
        self.processor_seconds += other.processor_seconds;
        self.counted.merge(&other.counted);
    }
}

impl ListenerStats {
    fn of((kind, address): &(ListenerKind, Address)) -> ListenerStats {
        ListenerStats { is_tls: *kind == ListenerKind::Tls, address: address.to_string() }
    }
}

impl CertificateStats {
    fn of(summary: &Summary) -> CertificateStats {
        CertificateStats {
            name: summary.name.clone(),
            file: summary.path.to_string_lossy().into_owned(),
            not_after: summary.not_after,
        }
    }
}

impl SiteStats {
    fn of(site: &SiteStatus) -> SiteStats {
        SiteStats {
            host: site.host.clone(),
            path: site.path.to_string_lossy().into_owned(),
            current: ReleaseStats::of(&site.current),
            previous: site.previous.as_ref().map(ReleaseStats::of),
        }
    }
}

impl ReleaseStats {
    fn of(release: &Release) -> ReleaseStats {
        let facts = &release.facts;
        ReleaseStats {
            serial: facts.serial,
            digest: facts.digest.to_string(),
            paths: facts.paths,
            bodies: facts.bodies,
            bytes: facts.file_bytes,
            since: release.since,
        }
    }
}
