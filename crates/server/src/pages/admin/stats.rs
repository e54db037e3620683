//! Statistics of one process or of several processes combined.
//!
//! Other processes might send any numbers, so all sums saturate.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::observe::process_usage::{ProcessUsage, processor_seconds};
use crate::observe::{
    CertificateKind, CertificateStatus, Counters, ListenerStatus, Release, RenewalError, SiteStatus,
    Snapshot, Status,
};

/// Statistics for operators.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Stats {
    /// IDs of the serving processes.
    pub(super) processes: Vec<u32>,
    pub(super) threads: usize,
    /// The longest uptime of any process.
    pub(super) uptime_seconds: f64,
    /// Whether any process is shutting down.
    pub(super) draining: bool,
    /// Results of reloads, summed up over all processes.
    pub(super) reloads: Reloads,
    /// CPU time of all processes, including those that have exited.
    pub(super) processor_seconds: f64,
    /// Memory and descriptors of the processes.
    pub(super) process: ProcessUsage,
    pub(super) listeners: Vec<ListenerStats>,
    pub(super) certificates: Vec<CertificateStats>,
    /// Whether a certificate needs an operator, in any process.
    #[serde(default)]
    pub(super) has_certificate_problems: bool,
    /// The sites. If processes serve different releases of a site, it is included several times.
    pub(super) sites: Vec<SiteStats>,
    pub(super) counted: Snapshot,
    /// Pool threads that are running a handler, writing a body or reading an upload.
    pub(super) occupied_threads: OccupiedThreads,
}

/// Numbers of threads.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct OccupiedThreads {
    pub(super) handlers: u64,
    pub(super) bodies: u64,
    pub(super) uploads: u64,
}

/// Results of reloads.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Reloads {
    pub(super) served: u64,
    pub(super) refused: u64,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListenerStats {
    /// `http`, `https` or `HTTP/3`.
    pub(super) protocol: String,
    pub(super) is_tls: bool,
    pub(super) address: String,
}

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CertificateStats {
    /// The first DNS name.
    pub(super) name: String,
    /// File of the certificate chain.
    pub(super) file: String,
    /// Expiry as Unix time in seconds. A temporary certificate counts as expired since it was made.
    pub(super) not_after: i64,
    /// Whether it was generated until the file exists.
    #[serde(default)]
    pub(super) is_temporary: bool,
    /// State of the renewal, if the process that issues the certificate has written one.
    #[serde(default)]
    pub(super) renewal: Option<RenewalStats>,
    /// Whether an operator should look after it.
    #[serde(default)]
    pub(super) has_problem: bool,
}

/// State of a certificate's renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RenewalStats {
    /// When the certificate was issued, as Unix time in seconds.
    pub(super) succeeded_at: Option<i64>,
    /// The last error since then.
    pub(super) error: Option<RenewalErrorStats>,
}

/// Why a certificate could not be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RenewalErrorStats {
    pub(super) at: i64,
    pub(super) kind: String,
    pub(super) message: String,
}

/// A site and its releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SiteStats {
    /// `None` for the default site.
    pub(super) host: Option<String>,
    pub(super) path: String,
    pub(super) current: ReleaseStats,
    pub(super) previous: Option<ReleaseStats>,
    /// Why the file of the next release isn't served, if there is one.
    #[serde(default)]
    pub(super) refused: Option<String>,
    /// State of the process that pulls releases into the directory, if there is one.
    #[serde(default)]
    pub(super) follow: Option<FollowStats>,
}

/// State of a process that pulls releases of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FollowStats {
    /// The serial of the release that the store names.
    pub(super) store_serial: Option<u64>,
    /// How long the store has named another release than the current one, in seconds. `None` if it is the same.
    pub(super) behind_seconds: Option<u64>,
    /// When the store was reached last, as Unix time in seconds.
    pub(super) reached: Option<u64>,
    /// How long looks at the store have failed, in seconds. `None` if the last one succeeded.
    #[serde(default)]
    pub(super) failing_seconds: Option<u64>,
    /// Why the last look failed.
    #[serde(default)]
    pub(super) error: Option<String>,
    /// How many looks have failed.
    #[serde(default)]
    pub(super) failures: u64,
    /// How often the command of `--on-activate` has failed.
    #[serde(default)]
    pub(super) on_activate_failures: u64,
}

/// Facts about an archive, and since when it has been served (Unix time in seconds).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReleaseStats {
    pub(super) serial: u64,
    pub(super) digest: String,
    pub(super) paths: u64,
    pub(super) bodies: u64,
    pub(super) bytes: u64,
    pub(super) since: u64,
}

impl Stats {
    /// Returns the statistics of this process.
    pub(super) fn of(workers: &[Arc<Counters>], status: &Status) -> Stats {
        let (served, refused) = status.reloads();
        let mut counted = Snapshot::of(workers);
        counted.log_lines_dropped = counted.log_lines_dropped.saturating_add(status.log_lines_lost());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let certificates = status.certificates();

        Stats {
            processes: vec![std::process::id()],
            threads: workers.len(),
            uptime_seconds: status.started.elapsed().as_secs_f64(),
            draining: status.is_draining(),
            reloads: Reloads { served, refused },
            processor_seconds: processor_seconds(),
            process: ProcessUsage::of(&status.process, status.started_unix),
            listeners: status.listeners().iter().map(ListenerStats::of).collect(),
            certificates: certificates
                .iter()
                .map(|certificate| CertificateStats::of(certificate, now))
                .collect(),
            has_certificate_problems: !status.has_healthy_certificates(),
            sites: status.sites().iter().map(|site| SiteStats::of(site, now)).collect(),
            counted,
            occupied_threads: OccupiedThreads {
                handlers: status.pool_threads.handlers.get(),
                bodies: status.pool_threads.bodies.get(),
                uploads: status.pool_threads.uploads.get(),
            },
        }
    }

    /// Returns `true` if a process is serving and the server is not shutting down.
    pub(super) fn is_ready(&self) -> bool {
        !self.draining && !self.processes.is_empty()
    }

    /// Adds the statistics of another serving process.
    pub(super) fn add(&mut self, other: &Stats) {
        self.processes.extend(&other.processes);
        self.threads = self.threads.saturating_add(other.threads);
        self.uptime_seconds = self.uptime_seconds.max(other.uptime_seconds);
        self.draining |= other.draining;
        self.has_certificate_problems |= other.has_certificate_problems;
        self.process.add(&other.process);

        let occupied = &mut self.occupied_threads;
        occupied.handlers = occupied.handlers.saturating_add(other.occupied_threads.handlers);
        occupied.bodies = occupied.bodies.saturating_add(other.occupied_threads.bodies);
        occupied.uploads = occupied.uploads.saturating_add(other.occupied_threads.uploads);

        for listener in &other.listeners {
            if !self.listeners.contains(listener) {
                self.listeners.push(listener.clone());
            }
        }
        self.add_certificates(&other.certificates);

        for site in &other.sites {
            let is_same =
                |known: &SiteStats| known.host == site.host && known.current.digest == site.current.digest;
            match self.sites.iter_mut().find(|known| is_same(known)) {
                Some(known) if known.refused.is_none() => known.refused.clone_from(&site.refused),
                Some(_) => {}
                None => self.sites.push(site.clone()),
            }
        }
        self.add_counted(other);
    }

    /// Adds the certificates of another process. If a file occurs twice, keeps what is worse.
    fn add_certificates(&mut self, others: &[CertificateStats]) {
        for other in others {
            let is_same =
                |known: &&mut CertificateStats| known.file == other.file && known.name == other.name;
            match self.certificates.iter_mut().find(is_same) {
                Some(known) => {
                    known.not_after = known.not_after.min(other.not_after);
                    known.is_temporary |= other.is_temporary;
                    known.has_problem |= other.has_problem;
                    let has_error = |renewal: &RenewalStats| renewal.error.is_some();
                    if !known.renewal.as_ref().is_some_and(has_error) && other.renewal.is_some() {
                        known.renewal.clone_from(&other.renewal);
                    }
                }
                None => self.certificates.push(other.clone()),
            }
        }
    }

    /// Adds the counters of another process, which might have exited.
    pub(super) fn add_counted(&mut self, other: &Stats) {
        self.reloads.served = self.reloads.served.saturating_add(other.reloads.served);
        self.reloads.refused = self.reloads.refused.saturating_add(other.reloads.refused);
        self.processor_seconds += other.processor_seconds;
        self.counted.merge(&other.counted);
    }
}

impl ListenerStats {
    fn of(listener: &ListenerStatus) -> ListenerStats {
        ListenerStats {
            protocol: listener.protocol.to_owned(),
            is_tls: listener.is_tls,
            address: listener.address.to_string(),
        }
    }
}

impl CertificateStats {
    fn of(status: &CertificateStatus, now: i64) -> CertificateStats {
        let error = |error: &RenewalError| RenewalErrorStats {
            at: error.at,
            kind: error.kind.clone(),
            message: error.message.clone(),
        };
        CertificateStats {
            name: status.name.clone(),
            file: status.file.to_string_lossy().into_owned(),
            not_after: status.not_after,
            is_temporary: status.kind == CertificateKind::Temporary,
            renewal: status.renewal.as_ref().map(|renewal| RenewalStats {
                succeeded_at: renewal.succeeded_at,
                error: renewal.error.as_ref().map(error),
            }),
            has_problem: status.problem(now).is_some(),
        }
    }
}

impl SiteStats {
    fn of(site: &SiteStatus, now: i64) -> SiteStats {
        let now = u64::try_from(now).unwrap_or_default();
        SiteStats {
            host: site.host.clone(),
            path: site.path.to_string_lossy().into_owned(),
            current: ReleaseStats::of(&site.current),
            previous: site.previous.as_ref().map(ReleaseStats::of),
            refused: site.refused.clone(),
            follow: site.follow.as_ref().map(|follow| FollowStats {
                store_serial: follow.store_serial,
                behind_seconds: follow.behind_since.map(|since| now.saturating_sub(since)),
                reached: follow.reached,
                failing_seconds: follow.failing_since.map(|since| now.saturating_sub(since)),
                error: follow.error.clone(),
                failures: follow.failures,
                on_activate_failures: follow.hook_failures,
            }),
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
