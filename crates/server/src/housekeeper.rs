//! Opens and verifies new releases while the workers are serving the old ones, and then replaces
//! them.
//!
//! This is the job of a dedicated thread that does not serve any connections. It checks the archives twice a
//! second and on request. Polling with `stat` works on every file system and through every symlink, and a
//! call only costs about a microsecond; file system notifications, on the other hand, would need a raised
//! limit.
//!
//! A process that compiles a folder itself will publish each release as an open file, which the thread then
//! serves immediately.
//!
//! Note that an archive must stay mapped for as long as any connection sends from it. We leave the unmapping
//! to the reload thread because it takes milliseconds, during which a worker could not serve any requests.

mod certificates;
mod publisher;

pub(crate) use certificates::WatchedCertificates;
pub use publisher::{PublishError, Publisher};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Lease, Loading, OpenError};
use cannery_base::FileVersion;
use cannery_eventloop::Waker;
use cannery_site::{Site, VirtualHosts};

use crate::config::{self, Config, NamedArchive, NoticeHandler};
use crate::content::{ArchiveResources, Content, Current, OpenRelease, Releases, Trigger, open};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{ProcessSampler, Status};
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Interval between two file checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A message to the reload thread.
#[derive(Debug)]
enum Order {
    /// Check all files.
    Check,
    /// Serve `file` as the archive at index `place`, and send the outcome to `done`.
    Publish { place: usize, file: File, done: Sender<Result<(), OpenError>> },
}

/// Requests file checks. The reload thread exits when all handles and publishers have been dropped.
#[derive(Debug, Clone)]
pub(crate) struct ReloadHandle(Publisher);

impl ReloadHandle {
    /// Requests a check, without waiting for it.
    pub(crate) fn request(&self) {
        // This only fails if the server is stopping.
        let _ = self.0.orders.send(Order::Check);
    }

    pub(crate) fn publisher(&self) -> Publisher {
        self.0.clone()
    }
}

/// An archive file and its last known state.
#[derive(Debug)]
struct Watched {
    /// Path of the archive, or a name for messages.
    path: PathBuf,
    /// Whether the archive is an open file or embedded. Only a [`Publisher`] can replace it.
    is_published: bool,
    /// The file that we serve or have refused. We will not open it again until it changes.
    settled: Option<FileVersion>,
    /// The file that the last check found.
    seen: Option<FileVersion>,
    /// Whether we have already reported that the file is missing.
    is_missing_reported: bool,
    /// Lease on the file that we serve.
    lease: Option<Lease>,
    /// Other releases in the same directory.
    releases: Option<Releases>,
}

/// Opens, checks and replaces releases. Runs on the reload thread.
pub(crate) struct Reloader {
    watched: Vec<Watched>,
    certificates: Option<WatchedCertificates>,
    /// Samples the resource usage of the process, if operators can query that.
    process: Option<ProcessSampler>,
    /// Notices from workers, which must not call the notice handler themselves.
    worker_notices: Option<Receiver<Notice>>,
    /// Finds handlers that do not return, if the server has routes.
    watchdog: Option<Watchdog>,
    /// Sites that we have replaced, but that a worker might still refer to.
    retired: Vec<Retired>,
    loading: Loading,
    virtual_hosts: VirtualHosts,
    watch: bool,
    on_notice: NoticeHandler,
    status: Option<Arc<Status>>,
}

/// Returns a notice for each handler that has been running for too long.
pub(crate) type Watchdog = Box<dyn FnMut(Instant) -> Vec<Notice> + Send>;

/// A site that we do not serve any more.
struct Retired {
    path: PathBuf,
    lease: Option<Lease>,
    site: Arc<Site>,
}

impl From<OpenRelease> for Retired {
    fn from(OpenRelease { path, site, lease }: OpenRelease) -> Retired {
        Retired { path, lease, site }
    }
}

/// The content being served, and the workers that serve it.
pub(crate) struct Served {
    pub(crate) current: Arc<Current>,
    pub(crate) wakers: Vec<Waker>,
}

impl Served {
    /// Replaces the content, and wakes up the workers because they would not notice otherwise.
    fn replace(&self, content: Content) {
        self.current.replace(Arc::new(content));
        for waker in &self.wakers {
            waker.wake();
        }
    }
}

impl Reloader {
    /// Creates a reloader.
    ///
    /// This should be done before the files are opened because it records their current state in order to
    /// notice any later change. Returns `None` if there would be nothing for the thread to do: no files to
    /// replace, no handlers to watch, and no operators to sample the process for.
    pub(crate) fn new(config: &Config) -> Option<Reloader> {
        let (archives, loading, watch) = match &config.content {
            config::Content::Archives { archives, loading, watch } => (archives.as_slice(), *loading, *watch),
            config::Content::Dummy { .. }
                if config.has_tls() || config.samples_process() || config.routes().is_some() =>
            {
                (&[][..], Loading::Mapped, false)
            }
            config::Content::Dummy { .. } => return None,
        };

        Some(Reloader {
            watched: archives.iter().map(Watched::new).collect(),
            certificates: None,
            process: None,
            worker_notices: None,
            watchdog: None,
            retired: Vec::new(),
            loading,
            virtual_hosts: config.virtual_hosts,
            watch,
            on_notice: config.on_notice.clone(),
            status: None,
        })
    }

    /// Also checks these certificates.
    pub(crate) fn with_certificates(self, certificates: Option<WatchedCertificates>) -> Reloader {
        Reloader { certificates, ..self }
    }

    /// Also samples the process.
    pub(crate) fn with_process(self, process: Option<ProcessSampler>) -> Reloader {
        Reloader { process, ..self }
    }

    /// Also passes on notices from workers.
    pub(crate) fn with_worker_notices(self, notices: Receiver<Notice>) -> Reloader {
        Reloader { worker_notices: Some(notices), ..self }
    }

    /// Also reports handlers that do not return.
    pub(crate) fn with_watchdog(self, watchdog: Option<Watchdog>) -> Reloader {
        Reloader { watchdog, ..self }
    }

    /// Starts the thread. `archives` are the resources of the watched archives, in order.
    pub(crate) fn start(
        mut self,
        archives: Vec<ArchiveResources>,
        status: Arc<Status>,
        served: Served,
        sandbox: &Sandbox,
    ) -> Result<ReloadHandle, StartError> {
        self.status = Some(status);
        for (watched, resources) in self.watched.iter_mut().zip(archives) {
            watched.lease = resources.lease;
            watched.releases = resources.releases;
        }

        let replaceable = self.watched.iter().map(|watched| watched.is_published).collect();
        let (sender, orders) = channel();
        let run = move || self.run(&orders, &served);
        thread::start("reload", sandbox, ThreadRole::Loader, run)?;
        Ok(ReloadHandle(Publisher { orders: sender, replaceable }))
    }

    fn run(&mut self, orders: &Receiver<Order>, served: &Served) {
        loop {
            // Chores that are due in every interval.
            if let (Some(process), Some(status)) = (&self.process, &self.status) {
                process.sample(&status.process);
            }
            for notice in self.worker_notices.iter().flat_map(Receiver::try_iter) {
                self.notify(&notice);
            }
            let late = self.watchdog.as_mut().map(|check| check(Instant::now()));
            for notice in late.iter().flatten() {
                self.notify(notice);
            }

            // While releases are left to open, only look for orders instead of waiting for them.
            let mut releases = self.watched.iter().filter_map(|watched| watched.releases.as_ref());
            let is_incomplete = releases.any(Releases::is_incomplete);
            match orders.recv_timeout(if is_incomplete { Duration::ZERO } else { CHECK_INTERVAL }) {
                // Several orders might have arrived in the meantime. Handle them together.
                Ok(order) => self.obey(std::iter::once(order).chain(orders.try_iter()), served),
                Err(RecvTimeoutError::Timeout) if is_incomplete => {
                    self.detach_written_archives(served);
                    self.check_archives(Trigger::Continuation, served);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.detach_written_archives(served);
                    if self.watch {
                        self.check_archives(Trigger::Interval, served);
                    }
                    self.check_certificates(Trigger::Interval);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Handles orders. Checks the files at most once, even if that was requested several times.
    fn obey(&mut self, orders: impl Iterator<Item = Order>, served: &Served) {
        let mut is_check_requested = false;
        for order in orders {
            match order {
                Order::Check => is_check_requested = true,
                Order::Publish { place, file, done } => {
                    let outcome = self.publish(place, &file, served);
                    // The sender might not be waiting any more.
                    let _ = done.send(outcome);
                }
            }
        }

        self.detach_written_archives(served);
        if is_check_requested {
            self.check_files(served);
        }
    }

    /// Checks all files because someone has asked us to.
    fn check_files(&mut self, served: &Served) {
        let archives = self.check_archives(Trigger::Request, served);
        let certificates = self.check_certificates(Trigger::Request);
        if archives == Outcome::Unchanged && certificates == Outcome::Unchanged {
            self.notify(&Notice::Unchanged);
        }
    }

    /// Serves `file` as the archive at index `place`.
    fn publish(&mut self, place: usize, file: &File, served: &Served) -> Result<(), OpenError> {
        let content = served.current.get();
        let Content::Sites(sites) = &*content else { return Ok(()) };
        let mut entries = sites.entries().to_vec();
        let (Some(entry), Some(watched)) = (entries.get_mut(place), self.watched.get_mut(place)) else {
            return Ok(());
        };

        let site = Arc::new(Site::new(Archive::from_file(file, self.loading)?, self.virtual_hosts));
        let facts = *site.archive().facts();
        let before = std::mem::replace(&mut entry.site, site);
        let path = watched.path.clone();
        self.retired.push(Retired { path, lease: watched.lease.take(), site: before });

        served.replace(Content::Sites(sites.with(entries)));
        if let Some(status) = &self.status {
            status.released(place, &facts);
        }
        Ok(())
    }

    /// Loads certificates if their files have changed.
    fn check_certificates(&mut self, trigger: Trigger) -> Outcome {
        let notices = self.certificates.as_mut().map(|certificates| certificates.check(trigger));
        let notices = notices.unwrap_or_default();
        if let (Some(certificates), Some(status)) = (&self.certificates, &self.status)
            && !notices.is_empty()
        {
            status.set_certificates(certificates.context.certificates());
        }
        for notice in &notices {
            self.notify(notice);
        }
        if notices.is_empty() { Outcome::Unchanged } else { Outcome::Changed }
    }

    fn notify(&self, notice: &Notice) {
        (self.on_notice.0)(notice);
    }

    /// Checks all archives, and serves new releases.
    fn check_archives(&mut self, trigger: Trigger, served: &Served) -> Outcome {
        let content = served.current.get();
        let Content::Sites(sites) = &*content else { return Outcome::Unchanged };
        let mut entries = sites.entries().to_vec();
        let mut notices = Vec::new();
        let mut released = Vec::new();
        let mut outcome = Outcome::Unchanged;
        let mut is_replaced = false;

        for (number, (watched, entry)) in self.watched.iter_mut().zip(&mut entries).enumerate() {
            // A continuation only opens more releases of a directory.
            let state =
                if trigger == Trigger::Continuation { FileState::Settled } else { watched.check(trigger) };
            match state {
                FileState::Settled => {}
                FileState::Missing(error) => {
                    outcome = Outcome::Changed;
                    let path = watched.path.clone();
                    notices.push(Notice::Refused { path, why: error.to_string() });
                }
                FileState::Ready(version) => {
                    outcome = Outcome::Changed;
                    watched.settled = Some(version);
                    match open(&watched.path, self.loading) {
                        Ok((archive, lease, open_notices)) => {
                            let site = Arc::new(Site::new(archive, self.virtual_hosts));
                            released.push((number, Arc::clone(&site)));
                            let before = std::mem::replace(&mut entry.site, site);
                            let lease = std::mem::replace(&mut watched.lease, lease);
                            let path = watched.path.clone();
                            self.retired.push(Retired { path, lease, site: before });
                            notices.extend(open_notices);
                        }
                        Err(why) => {
                            let path = watched.path.clone();
                            notices.push(Notice::Refused { path, why });
                        }
                    }
                }
            }

            // Update these together with the current release, so that the previous one still answers for its
            // pages.
            if let Some(releases) = &mut watched.releases {
                let current = entry.site.archive().facts().digest;
                let scan = releases.scan(&current, trigger, &mut notices);
                if scan.is_changed {
                    outcome = Outcome::Changed;
                    is_replaced = true;
                    entry.earlier = releases.sites();
                }
                self.retired.extend(scan.retired.into_iter().map(Retired::from));
            }
        }

        if !released.is_empty() || is_replaced {
            served.replace(Content::Sites(sites.with(entries)));
        }

        // Do not report a release until it is being served.
        if let Some(status) = &self.status {
            for (number, site) in &released {
                status.released(*number, site.archive().facts());
            }
            for _ in notices.iter().filter(|notice| matches!(notice, Notice::Refused { .. })) {
                status.refused();
            }
        }
        for notice in &notices {
            self.notify(notice);
        }
        outcome
    }

    /// Copies every archive that another process is waiting to write to, and drops retired sites that no
    /// worker uses any more.
    fn detach_written_archives(&mut self, served: &Served) {
        let content = served.current.get();

        let Content::Sites(sites) = &*content else { return };
        for (watched, entry) in self.watched.iter_mut().zip(sites.entries()) {
            if let Some(lease) = watched.lease.take_if(|lease| lease.is_being_broken()) {
                detach(&watched.path, entry.site.archive(), lease, &self.on_notice);
            }
        }

        // If the count is 1, then this is the last reference and nothing else can create another
        // one.
        self.retired.retain(|retired| Arc::strong_count(&retired.site) > 1);

        let releases = self.watched.iter_mut().filter_map(|watched| watched.releases.as_mut());
        for open in releases.flat_map(Releases::open_mut) {
            if let Some(lease) = open.lease.take_if(|lease| lease.is_being_broken()) {
                detach(&open.path, open.site.archive(), lease, &self.on_notice);
            }
        }

        for retired in &mut self.retired {
            if let Some(lease) = retired.lease.take_if(|lease| lease.is_being_broken()) {
                detach(&retired.path, retired.site.archive(), lease, &self.on_notice);
            }
        }
    }
}

/// Copies an archive that another process is waiting to write to. The lease is released afterwards, which
/// allows that process to continue.
fn detach(path: &Path, archive: &Archive, lease: Lease, on_notice: &NoticeHandler) {
    let path = path.to_owned();
    let notice = match archive.detach() {
        Ok(()) => Notice::WrittenInPlace { path },
        Err(error) => Notice::CopyFailed { path, why: error.to_string() },
    };
    drop(lease);
    (on_notice.0)(&notice);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    Changed,
}

/// Result of checking a file.
enum FileState {
    /// The file is known or still being written.
    Settled,
    /// The file is new and seems to be complete.
    Ready(FileVersion),
    /// The file cannot be read.
    Missing(io::Error),
}

impl Watched {
    fn new(named: &NamedArchive) -> Watched {
        let is_published = !named.is_opened_by_path();
        let metadata = if is_published { None } else { named.path().metadata().ok() };
        let version = metadata.map(|metadata| FileVersion::of(&metadata));
        Watched {
            path: named.path().to_owned(),
            is_published,
            settled: version,
            seen: version,
            is_missing_reported: false,
            lease: None,
            releases: None,
        }
    }

    /// Checks the file. A missing file is reported once, and then again for each request.
    fn check(&mut self, trigger: Trigger) -> FileState {
        if self.is_published {
            return FileState::Settled;
        }

        let is_requested = trigger == Trigger::Request;
        let version = match self.path.metadata() {
            Ok(metadata) => FileVersion::of(&metadata),
            Err(error) => {
                self.seen = None;
                let is_reported = std::mem::replace(&mut self.is_missing_reported, true);
                return if is_reported && !is_requested {
                    FileState::Settled
                } else {
                    FileState::Missing(error)
                };
            }
        };

        self.is_missing_reported = false;
        let before = self.seen.replace(version);
        if self.settled == Some(version) {
            return FileState::Settled;
        }

        // A file that was renamed into place is complete. If it is being written in place, however, we
        // cannot know, so wait until it stays the same between two checks.
        let renamed = self.settled.is_none_or(|settled| !settled.is_same_file(&version));
        if is_requested || renamed || before == Some(version) {
            FileState::Ready(version)
        } else {
            FileState::Settled
        }
    }
}

/// Opens an archive, and verifies all of it before it is served.
fn open(path: &Path, loading: Loading) -> Result<(Archive, Option<Lease>, Vec<Notice>), String> {
    let began = Instant::now();
    let open::OpenedArchive { archive, lease, is_unguarded } =
        open::open(path, loading).map_err(|error| error.to_string())?;
    archive.verify(|_| {}).map_err(|error| error.to_string())?;

    let mut notices = vec![Notice::reloaded(path.to_owned(), archive.facts(), began.elapsed())];
    if is_unguarded {
        notices.push(Notice::Unguarded { path: path.to_owned() });
    }
    Ok((archive, lease, notices))
}

#[cfg(test)]
mod tests;
