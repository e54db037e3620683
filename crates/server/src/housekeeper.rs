//! The housekeeping thread: does all work for which connections should not have to wait. Beside it, the site opener does the work for
//! which they have to.
//!
//! It serves nothing itself. Four times a second, and earlier if someone sends a [`Command`], it runs each of its tasks:
//! new releases and certificates, statistics of the process, notices from workers, and handlers that do not return.
//!
//! Polling files with `stat` works on every file system and through every symlink, and a call only costs about a
//! microsecond; file system notifications, on the other hand, would need a raised limit. A process that compiles a
//! folder itself will publish each release as an open file, which the thread then serves immediately.

// Tasks.
mod archives;
mod certificates;
mod followers;
mod notices;
mod sampler;
mod state_files;

// Opens the sites of a site directory, on another thread.
mod site_opener;

// A file that contains an archive, and its last known state.
mod archive_file;

// Replaces archives with open files, from any thread.
mod publisher;

pub(crate) use archives::Archives;
pub(crate) use certificates::CertificateLoader;
pub(crate) use notices::WorkerNotices;
pub use publisher::{PendingSite, PublishError, Publisher, SitePublisher};
pub(crate) use sampler::ProcessSampler;
pub(crate) use site_opener::{SiteOpener, SiteOpenerHandle};

use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use archives::Unverified;
use cannery_archive::OpenError;
use cannery_site::Site;

use crate::config::{Config, Content, NoticeHandler};
use crate::content::Trigger;
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::Status;
use crate::routes::Watchdog;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Interval between two looks at archives and release directories, and two runs of most tasks.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// An archive that is written in place and didn't change for this long is considered complete. In a release directory, two looks are
/// enough, because publishers wait for them. Also the interval between two looks at certificates, of which two files may be replaced one
/// after the other, and at the sites of a site directory, which may be thousands.
const QUIET: Duration = Duration::from_millis(500);

/// A message to the thread.
#[derive(Debug)]
enum Command {
    /// Check all files.
    Check,
    /// The site with this index is damaged, if it is still this one.
    Damaged { index: usize, site: Arc<Site>, why: String },
    /// Serve `next` as the archive with this index, and send the outcome to `done`.
    Publish { index: usize, next: NextArchive, done: Sender<Result<(), OpenError>> },
}

/// An archive that replaces another one.
#[derive(Debug)]
enum NextArchive {
    File(File),
    Site(Arc<Site>),
}

thread_local! {
    /// `true` on a housekeeping thread, which must not wait for one.
    static IS_HOUSEKEEPER: Cell<bool> = const { Cell::new(false) };
}

/// Sends commands to the thread. It exits when all handles and publishers have been dropped.
#[derive(Debug, Clone)]
pub(crate) struct HousekeeperHandle(Publisher);

impl HousekeeperHandle {
    /// Requests a check of all files, without waiting for it.
    pub(crate) fn request_check(&self) {
        // This only fails if the server is stopping.
        let _ = self.0.commands.send(Command::Check);
    }

    pub(crate) fn publisher(&self) -> Publisher {
        self.0.clone()
    }
}

/// The tasks of the thread.
pub(crate) struct Housekeeper {
    pub(crate) archives: Archives,
    /// `None` without TLS.
    pub(crate) certificates: Option<CertificateLoader>,
    /// `None` if operators cannot query the process.
    pub(crate) sampler: Option<ProcessSampler>,
    pub(crate) notices: WorkerNotices,
    /// Finds handlers that do not return. `None` if the server has no routes.
    pub(crate) watchdog: Option<Watchdog>,
    /// Opens the sites of a site directory, if there is one.
    pub(crate) site_opener: Option<SiteOpenerHandle>,
    pub(crate) reporter: Reporter,
}

/// Tells operators what the thread has done.
pub(crate) struct Reporter {
    pub(crate) status: Arc<Status>,
    pub(crate) on_notice: NoticeHandler,
}

impl Reporter {
    fn notify(&self, notice: &Notice) {
        (self.on_notice.0)(notice);
    }
}

/// Result of checking files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    Changed,
}

impl Housekeeper {
    /// Returns `false` if there would be nothing to do: no files to replace, no handlers to watch, and no operators to
    /// sample the process for.
    pub(crate) fn is_needed(config: &Config) -> bool {
        match config.content {
            Content::Archives { .. } => true,
            Content::Dummy { .. } => {
                config.has_tls() || config.samples_process() || config.routes().is_some()
            }
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(mut self, sandbox: &Sandbox) -> Result<HousekeeperHandle, StartError> {
        let replaceable = self.archives.replaceable();
        let unverified = self.archives.take_unverified();
        let (sender, commands) = channel();
        if !unverified.is_empty() {
            // Large archives take seconds, in which the housekeeper has leases to look after.
            let damaged = sender.clone();
            thread::start("verifier", sandbox, ThreadRole::Loader, move || verify(unverified, &damaged))?;
        }
        thread::start("housekeeper", sandbox, ThreadRole::Loader, move || {
            IS_HOUSEKEEPER.set(true);
            self.run(&commands);
        })?;
        Ok(HousekeeperHandle(Publisher { commands: Arc::new(sender), replaceable }))
    }

    fn run(mut self, commands: &Receiver<Command>) {
        let mut checked_certificates = Instant::now();
        loop {
            self.observe();

            // While archives are left to open, only look for commands instead of waiting for them.
            let is_incomplete = self.archives.is_incomplete();
            match commands.recv_timeout(if is_incomplete { Duration::ZERO } else { LOOK_INTERVAL }) {
                // Several commands might have arrived in the meantime. Handle them together.
                Ok(command) => self.handle(std::iter::once(command).chain(commands.try_iter())),
                Err(RecvTimeoutError::Timeout) if is_incomplete => {
                    self.archives.protect(&self.reporter);
                    self.archives.check(Trigger::Continuation, &self.reporter);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.archives.protect(&self.reporter);
                    self.archives.check(Trigger::Interval, &self.reporter);
                    self.archives.report_followers(&self.reporter.status);
                    if checked_certificates.elapsed() >= QUIET {
                        checked_certificates = Instant::now();
                        self.check_certificates(Trigger::Interval);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Samples the process, and reports what workers and handlers do.
    fn observe(&mut self) {
        if let Some(sampler) = &self.sampler {
            sampler.sample(&self.reporter.status.process);
        }
        self.notices.pass_on(&self.reporter);
        let late = self.watchdog.as_mut().map(|watchdog| watchdog.check(Instant::now()));
        for notice in late.iter().flatten() {
            self.reporter.notify(notice);
        }
    }

    /// Handles commands. Checks the files at most once, even if that was requested several times.
    fn handle(&mut self, commands: impl Iterator<Item = Command>) {
        let mut is_check_requested = false;
        for command in commands {
            match command {
                Command::Check => is_check_requested = true,
                Command::Damaged { index, site, why } => {
                    self.archives.report_damaged(index, &site, why, &self.reporter);
                }
                Command::Publish { index, next, done } => {
                    let outcome = self.archives.publish(index, next, &self.reporter);
                    // The sender might not be waiting any more.
                    let _ = done.send(outcome);
                }
            }
        }

        self.archives.protect(&self.reporter);
        if is_check_requested {
            self.check_files();
        }
    }

    /// Checks all files because someone has asked us to.
    fn check_files(&mut self) {
        let archives = self.archives.check(Trigger::Request, &self.reporter);
        let certificates = self.check_certificates(Trigger::Request);
        let is_site_changed = self.site_opener.as_ref().is_some_and(SiteOpenerHandle::check);
        if archives == Outcome::Unchanged && certificates == Outcome::Unchanged && !is_site_changed {
            self.reporter.notify(&Notice::Unchanged);
        }
    }

    /// Loads certificates if their files have changed.
    fn check_certificates(&mut self, trigger: Trigger) -> Outcome {
        let Some(certificates) = &mut self.certificates else { return Outcome::Unchanged };
        certificates.check(trigger, &self.reporter)
    }
}

/// Verifies these sites, one after the other.
fn verify(unverified: Vec<Unverified>, damaged: &Sender<Command>) {
    for Unverified { index, site } in unverified {
        if let Err(error) = site.archive().verify(|_| {}) {
            // We can ignore an error here: the server may be stopping.
            let _ = damaged.send(Command::Damaged { index, site, why: error.to_string() });
        }
    }
}

#[cfg(test)]
mod tests;
