//! The server: puts the parts together and keeps them running.
//!
//! A [`Server`] is configured, [`Server::start`] opens the archives, binds and spawns the workers, and
//! [`RunningServer::wait`] waits until they have stopped. This file contains no protocol or kernel detail.

#![forbid(unsafe_code)]

// From the whole to its parts: we let a module import only modules that are listed after it.

// Builds and starts a server: opens files and sockets, starts the threads, handles signals.
mod startup;

// One serving thread: its event loop, its listeners, its connections.
mod worker;

// HTTP/3 of a worker: UDP sockets, QUIC connections, requests and responses.
mod http3;

// One TCP connection: TLS, HTTP/1 or HTTP/2, deadlines, sending.
mod connection;

// Responses that handlers make.
mod routes;

// Replaces archives and certificates while the server runs.
mod reload;

// Selects the site of a request, and the archive or page for the response.
mod content;

// Pages of the server itself: admin pages, `/__/`, ACME challenges.
mod pages;

// Counters, the access log, and the state of the server as a whole.
mod observe;

// Several processes: listening sockets, supervisor, takeover, messages between them and to the service manager.
pub mod process;

// Foundations of all of the above: threads in the sandbox.
mod thread;

// Panics of connections, for tests.
#[cfg(test)]
mod fault;

// Errors of starting a server.
mod error;

// Reasons of connections to wait, and how long they may: over all protocols.
mod deadlines;

// Hosts that are safe from DNS rebinding.
mod trusted_hosts;

// Configuration of a server.
pub mod config;

// Notices to the operator.
mod notice;

// Landlock, seccomp and credentials.
pub mod sandbox;

// Signals that arrive while the server starts.
mod kept_signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use cannery_eventloop::Address;
use cannery_eventloop::{Claim, Waker};

pub use crate::config::Config;
pub use crate::error::StartError;
pub use crate::kept_signals::KeptSignals;
pub use crate::notice::Notice;
pub use crate::process::Addresses;
pub use crate::reload::{PublishError, Publisher};
pub use crate::startup::{AdminProcess, EmbeddedArchive, FolderReleases, Server};
#[cfg(any(test, feature = "stepper"))]
pub use crate::worker::stepper;
pub use crate::worker::{Backend, BackendChoice};

use crate::config::ListenerKind;
use crate::observe::{LogWriter, Report, SiteStatus, Status};
use crate::process::notify::Notify;
use crate::process::release_socket::ReleaseReceiver;
use crate::process::{DownProcesses, Handover};
use crate::reload::ReloadHandle;
use crate::sandbox::{Sandbox, SandboxReport, ThreadRole};
use crate::startup::{AdminServer, Resources, SignalHandler};
use crate::worker::{StopFlag, StopReport};

/// How long a worker may take to end after the drain timeout. Only one with a handler that doesn't return takes longer.
const WORKER_END_MAX: Duration = Duration::from_secs(1);

/// A running server.
#[derive(Debug)]
pub struct RunningServer {
    addresses: Vec<(ListenerKind, Address)>,
    quic_addresses: Vec<Address>,
    workers: Vec<JoinHandle<()>>,
    stop: StopHandle,
    reload: Option<ReloadHandle>,
    log: Option<LogWriter>,
    admin: Option<AdminServer>,
    report: Option<Report>,
    down_processes: DownProcesses,
    handover: Handover,
    /// Removes the paths of local sockets when dropped.
    _claims: Vec<Claim>,
    sandbox: Sandbox,
    sandbox_report: SandboxReport,
    io: BackendChoice,
    on_notice: config::NoticeHandler,
    kept_signals: Option<KeptSignals>,
    /// The releases that were served first.
    sites: Vec<SiteStatus>,
    /// Receives the order to stop, and the progress of each worker.
    stop_reports: Receiver<StopReport>,
    drain: Duration,
}

/// Stops a server, from any thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    flag: Arc<StopFlag>,
    wakers: Vec<Waker>,
    status: Arc<Status>,
    reports: Sender<StopReport>,
}

impl StopHandle {
    /// Stops accepting connections. Responses in flight may finish until the configured drain timeout, which
    /// [`RunningServer::wait`] waits for.
    pub fn stop(&self) {
        self.status.set_draining();
        self.flag.set();
        // No thread may wait for the end of the server.
        let _ = self.reports.send(StopReport::Ordered);
        for waker in &self.wakers {
            waker.wake();
        }
    }
}

/// Wakes the workers of a server, from any thread.
#[derive(Debug, Clone)]
pub struct WakeHandle(Vec<Waker>);

impl WakeHandle {
    /// Makes the workers check pages again that clients wait for (see [`config::LivePage::Pending`]).
    pub fn wake(&self) {
        for waker in &self.0 {
            waker.wake();
        }
    }
}

impl RunningServer {
    /// Implements [`Server::start`].
    fn start(config: &Config) -> Result<RunningServer, StartError> {
        let opened = Resources::open(config)?;
        // We start threads after this, because they inherit the sandbox of the first one.
        let (sandbox, sandbox_report) = Sandbox::enter(&opened.sandbox(config))?;
        opened.serve(config, sandbox, sandbox_report)
    }

    /// Returns the addresses at which the server listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses {
            listeners: self.addresses.clone(),
            quic: self.quic_addresses.clone(),
            admin: self.admin.as_ref().map(AdminServer::address),
        }
    }

    /// Reports which releases are served. The caller calls it once, after the server has started.
    pub fn report_sites(&self) {
        for site in &self.sites {
            let facts = &site.current.facts;
            (self.on_notice.0)(&Notice::Serving {
                path: site.path.clone(),
                host: site.host.clone(),
                serial: facts.serial,
                digest: facts.digest,
                paths: facts.paths,
            });
        }
    }

    /// Returns a handle that wakes the workers.
    #[must_use]
    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle(self.stop.wakers.clone())
    }

    /// Returns the event loop backend, and the reason for it.
    #[must_use]
    pub fn io(&self) -> &BackendChoice {
        &self.io
    }

    /// Returns the layers of the sandbox that are in force.
    #[must_use]
    pub fn sandbox_report(&self) -> &SandboxReport {
        &self.sandbox_report
    }

    /// Returns a handle that replaces archives which were given as open files, or `None` if the server has none.
    #[must_use]
    pub fn publisher(&self) -> Option<Publisher> {
        self.reload.as_ref().map(ReloadHandle::publisher).filter(Publisher::has_archives)
    }

    /// Serves each release that another process sends as the archive at index `place` of the configuration, which must be an
    /// open file. `folder` is its name in notices.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn follow(&self, place: usize, folder: PathBuf, releases: ReleaseReceiver) -> Result<(), StartError> {
        let Some(publisher) = self.publisher() else { return Ok(()) };
        let on_notice = self.on_notice.clone();
        let stop = Arc::clone(&self.stop.flag);
        let run = move || {
            let end = loop {
                match releases.receive() {
                    Ok(Some(file)) => match publisher.publish(place, file) {
                        Ok(()) => releases.acknowledge(),
                        Err(PublishError::Stopping) => return,
                        Err(error) => {
                            (on_notice.0)(&Notice::Refused { path: folder.clone(), why: error.to_string() });
                            releases.acknowledge();
                        }
                    },
                    Ok(None) => break "the process that compiles it has ended".to_owned(),
                    Err(error) => break error.to_string(),
                }
            };
            // Both may be stopped by the same signal.
            if !stop.is_set() {
                (on_notice.0)(&Notice::NotFollowed { path: folder, why: end });
            }
        };
        thread::start("releases", &self.sandbox, ThreadRole::Receiver, run)?;
        Ok(())
    }

    /// Puts the calling thread into a sandbox in which it can only wait for the server and remove its Unix sockets. Without this,
    /// the thread may make the system calls of all others.
    ///
    /// # Errors
    /// The kernel rejects the filter.
    pub fn restrict_waiting_thread(&self) -> Result<(), StartError> {
        Ok(self.sandbox.enter_thread(ThreadRole::Main)?)
    }

    /// Returns a handle that stops the server, for another thread.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Waits until every worker has stopped, because of a signal ([`RunningServer::handle_signals`]) or of
    /// [`StopHandle::stop`].
    ///
    /// A worker with a handler that doesn't return cannot stop. When the drain timeout has passed, `wait` returns without it, and its
    /// thread ends with the process.
    pub fn wait(self) {
        let stuck = self.await_workers();
        if stuck > 0 {
            (self.on_notice.0)(&Notice::WorkersStuck { threads: stuck });
        } else {
            for worker in self.workers {
                // The panic hook has already reported a worker that panicked.
                let _ = worker.join();
            }
        }
        drop(self.report);
        // These stop last, so that operators can query them and workers can log until the end.
        if let Some(admin) = self.admin {
            admin.stop();
        }
        if let Some(log) = self.log {
            log.finish();
        }
    }

    /// Waits until the workers have ended, or the time for that has passed. Returns the number of those that have not.
    fn await_workers(&self) -> usize {
        let mut running = self.workers.len();
        let mut accepting = running;
        let mut connections = 0;
        let mut end = None;
        while running > 0 {
            let report = match end {
                None => self.stop_reports.recv().ok(),
                Some(end) => {
                    let rest: Duration = end - Instant::now().min(end);
                    self.stop_reports.recv_timeout(rest).ok()
                }
            };
            match report {
                Some(StopReport::Ordered) => {
                    end.get_or_insert_with(|| Instant::now() + self.drain + WORKER_END_MAX);
                }
                Some(StopReport::Draining { connections: more }) => {
                    connections += more;
                    accepting = accepting.saturating_sub(1);
                    if accepting == 0 && connections > 0 && !self.drain.is_zero() {
                        (self.on_notice.0)(&Notice::Draining { connections, within: self.drain });
                    }
                }
                Some(StopReport::Ended) => running -= 1,
                None => return running,
            }
        }
        0
    }

    /// Acts on signals from now on, and on those that were kept: SIGINT, SIGTERM and SIGQUIT stop the server gracefully, a second
    /// one ends it at once, and SIGHUP checks for new releases. The caller must do this before it announces that the server is
    /// ready.
    ///
    /// `notify` reports reloads and the shutdown to the service manager.
    ///
    /// # Errors
    /// Returns an error if a thread or a handler cannot be started.
    pub fn handle_signals(&self, notify: Notify) -> Result<(), StartError> {
        if let Some(supervisor) = notify.supervisor() {
            let wakers = self.stop.wakers.clone();
            self.down_processes.clone().follow(supervisor, self.handover.clone(), wakers, &self.sandbox)?;
        }
        let reopen = self.log.as_ref().map(LogWriter::reopen_handle);
        let handler = SignalHandler {
            signals: KeptSignals::take(self.kept_signals.as_ref()).map_err(StartError::Signals)?,
            stop: self.stop.clone(),
            reload: self.reload.clone(),
            reopen,
            notify,
            on_notice: self.on_notice.clone(),
        };
        handler.start(&self.sandbox)
    }
}
