//! Server-wide status, e.g. the start time, listeners, certificates, releases of each site, and
//! whether the server is draining.
//!
//! It is not part of the request path; only threads that do not serve any connections write to it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cannery_archive::Facts;
use cannery_eventloop::Address;

use super::certificate_status::{CertificateHealth, CertificateStatus};
use super::process_usage::ProcessStatus;
use crate::config::{ListenerKind, NamedArchive};

/// Server-wide status.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) started: Instant,
    /// Start time as Unix time in seconds.
    pub(crate) started_unix: f64,
    pub(crate) process: ProcessStatus,
    listeners: Mutex<Vec<ListenerStatus>>,
    certificates: Mutex<Vec<CertificateStatus>>,
    certificate_health: Arc<CertificateHealth>,
    draining: AtomicBool,
    reloads: AtomicU64,
    refused: AtomicU64,
    /// Access log lines that could not be written.
    log_lines_lost: AtomicU64,
    sites: Mutex<Vec<SiteStatus>>,
    pub(crate) pool_threads: OccupiedThreads,
}

/// An address that the server listens on.
#[derive(Debug, Clone)]
pub(crate) struct ListenerStatus {
    /// Name of the protocol.
    pub(crate) protocol: &'static str,
    pub(crate) is_tls: bool,
    pub(crate) address: Address,
}

/// For each pool, the number of threads that are running a handler or writing a body.
#[derive(Debug, Default)]
pub(crate) struct OccupiedThreads {
    pub(crate) handlers: ThreadCount,
    pub(crate) bodies: ThreadCount,
    pub(crate) uploads: ThreadCount,
}

/// A number of threads. The threads update it themselves.
#[derive(Debug, Default)]
pub(crate) struct ThreadCount(AtomicI64);

impl ThreadCount {
    pub(crate) fn change(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// Releases of a site.
#[derive(Debug, Clone)]
pub(crate) struct SiteStatus {
    /// `None` for the default site.
    pub(crate) host: Option<String>,
    pub(crate) path: PathBuf,
    pub(crate) current: Release,
    pub(crate) previous: Option<Release>,
    /// Why the file of the next release isn't served, if there is one.
    pub(crate) refused: Option<String>,
    /// State of the process that pulls releases into the directory, if there is one.
    pub(crate) follow: Option<FollowStatus>,
}

/// State of a process that pulls releases of a store into a release directory. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FollowStatus {
    /// The serial of the release that the store names.
    pub(crate) store_serial: Option<u64>,
    /// Since when the store names another release than the current one.
    pub(crate) behind_since: Option<u64>,
    /// When the store was reached last.
    pub(crate) reached: Option<u64>,
    /// Since when its looks at the store fail.
    pub(crate) failing_since: Option<u64>,
    /// Why the last look failed.
    pub(crate) error: Option<String>,
    /// How many looks have failed.
    pub(crate) failures: u64,
    /// How often the command of `--on-activate` has failed.
    pub(crate) hook_failures: u64,
}

/// A release, and when the server started to serve it.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub(crate) facts: Facts,
    /// Unix time in seconds.
    pub(crate) since: u64,
}

impl Release {
    fn now(facts: &Facts) -> Release {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Release { facts: *facts, since }
    }
}

impl Status {
    pub(crate) fn new<'a>(
        archives: impl Iterator<Item = (&'a NamedArchive, &'a Facts)>,
        certificate_health: Arc<CertificateHealth>,
    ) -> Status {
        let site = |(named, facts): (&NamedArchive, &Facts)| SiteStatus {
            host: named.host.as_ref().map(ToString::to_string),
            path: named.path().to_owned(),
            current: Release::now(facts),
            previous: None,
            refused: None,
            follow: None,
        };

        Status {
            started: Instant::now(),
            started_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            process: ProcessStatus::default(),
            listeners: Mutex::default(),
            certificates: Mutex::default(),
            certificate_health,
            draining: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            log_lines_lost: AtomicU64::new(0),
            sites: Mutex::new(archives.map(site).collect()),
            pool_threads: OccupiedThreads::default(),
        }
    }

    pub(crate) fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Records that a site serves a new release.
    pub(crate) fn released(&self, site: usize, facts: &Facts) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
        if let Some(site) = self.lock().get_mut(site) {
            let before = std::mem::replace(&mut site.current, Release::now(facts));
            site.previous = Some(before);
        }
    }

    /// Sets the state of the process that pulls releases of a site.
    pub(crate) fn set_follow(&self, site: usize, follow: Option<FollowStatus>) {
        if let Some(site) = self.lock().get_mut(site) {
            site.follow = follow;
        }
    }

    /// Sets why the next release of a site isn't served. `None` if the current one is the newest.
    pub(crate) fn set_refused(&self, site: usize, why: Option<String>) {
        if let Some(site) = self.lock().get_mut(site) {
            site.refused = why;
        }
    }

    /// Records that a release was refused.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of releases that were accepted, followed by those that were refused.
    pub(crate) fn reloads(&self) -> (u64, u64) {
        (self.reloads.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Counts access log lines that could not be written.
    pub(super) fn lose_log_lines(&self, lines: u64) {
        self.log_lines_lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Returns the number of access log lines that could not be written.
    pub(crate) fn log_lines_lost(&self) -> u64 {
        self.log_lines_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn sites(&self) -> Vec<SiteStatus> {
        self.lock().clone()
    }

    /// Sets the addresses that the server is listening on. `streams` are TCP and Unix sockets, while `quic`
    /// are UDP sockets.
    pub(crate) fn set_listeners(&self, streams: &[(ListenerKind, Address)], quic: &[Address]) {
        let streams = streams.iter().map(|(kind, address)| ListenerStatus {
            protocol: kind.scheme(),
            is_tls: *kind == ListenerKind::Tls,
            address: address.clone(),
        });
        let quic = quic.iter().map(|address| ListenerStatus {
            protocol: "HTTP/3",
            is_tls: true,
            address: address.clone(),
        });
        *lock(&self.listeners) = streams.chain(quic).collect();
    }

    pub(crate) fn listeners(&self) -> Vec<ListenerStatus> {
        lock(&self.listeners).clone()
    }

    /// Sets the state of the certificates at this Unix time.
    pub(crate) fn set_certificates(&self, certificates: Vec<CertificateStatus>, now: i64) {
        self.certificate_health.set(&certificates, now);
        *lock(&self.certificates) = certificates;
    }

    pub(crate) fn certificates(&self) -> Vec<CertificateStatus> {
        lock(&self.certificates).clone()
    }

    /// Whether no certificate needs an operator.
    pub(crate) fn has_healthy_certificates(&self) -> bool {
        self.certificate_health.problems().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SiteStatus>> {
        lock(&self.sites)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
