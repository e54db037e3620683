//! The server: puts the parts together and keeps them running.
//!
//! In order to use it, configure a [`Server`] and call [`Server::start`], which opens the archives, binds the
//! listeners and spawns the workers. [`RunningServer::wait`] then blocks until all workers have stopped. Note
//! that this file should not contain any protocol or kernel details.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// In reading order, from the whole to the parts: a module may only import modules that are listed after it.

// Builds and starts a server: opens files and sockets, starts the threads, handles signals.
mod startup;

// One serving thread: its event loop, its listeners, its connections.
mod worker;

// A worker's HTTP/3 side: UDP sockets, QUIC connections, requests and responses.
mod http3;

// One TCP connection: TLS, HTTP/1 or HTTP/2, deadlines, sending.
mod connection;

// A worker's state that is used by one connection at a time, of any protocol.
mod context;

// The housekeeping thread: archives, certificates, statistics of the process, notices.
mod housekeeper;

// Runs route handlers and delivers their responses.
mod routes;

// Selects the site for a request, and the archive or page to respond with.
mod content;

// Pages that the server generates: admin pages, `/__/`, ACME challenges.
mod pages;

// Counters, access log, and server-wide status.
mod observe;

// Several processes: listening sockets, supervisor, takeover, messages between them and to the service manager.
#[doc(hidden)]
pub mod process;

// Starts threads in the sandbox.
mod thread;

// Injects panics into connections, for tests.
#[cfg(test)]
mod fault;

// Verifies archives before they are served.
mod verification;

// Admits the releases of a directory whose signatures are demanded.
mod admission;

// Errors that can occur while a server starts.
mod error;

// Why a connection may be waiting, and how long we let it wait, for all protocols.
mod deadlines;

// Host names that are safe from DNS rebinding.
mod trusted_hosts;

// Server configuration.
pub mod config;

// Notices to the operator.
mod notice;

// Statements about archives, and their signatures.
#[doc(hidden)]
pub mod statement_files;

// Reads short files that other processes write.
#[doc(hidden)]
pub mod short_file;

// Landlock, seccomp and credentials.
#[doc(hidden)]
pub mod sandbox;

// Signals that arrive while the server starts.
mod kept_signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use cannery_eventloop::{Address, ParseAddressError};
use cannery_eventloop::{Claim, Waker};
pub use cannery_transport::Error as TlsError;

#[doc(hidden)]
pub use crate::config::Config;
#[doc(hidden)]
pub use crate::content::limits::ARCHIVE_VERIFIED_BYTES_MAX;
pub use crate::error::StartError;
#[doc(hidden)]
pub use crate::housekeeper::{PendingSite, PublishError, Publisher, SitePublisher};
#[doc(hidden)]
pub use crate::kept_signals::KeptSignals;
pub use crate::notice::Notice;
pub use crate::process::Addresses;
pub use crate::sandbox::SandboxError;
#[doc(hidden)]
pub use crate::startup::{AdminProcess, ReplaceableSite};
pub use crate::startup::{Server, Settings, SiteSource};
#[cfg(any(test, feature = "stepper"))]
pub use crate::worker::stepper;
pub use crate::worker::{Backend, BackendChoice};

use crate::housekeeper::HousekeeperHandle;
use crate::observe::{LogWriter, SiteStatus, Status};
use crate::process::notify::Notify;
use crate::process::release_socket::ReleaseReceiver;
use crate::process::{DownProcesses, UdpHandover};
use crate::sandbox::{Sandbox, SandboxReport, ThreadRole};
use crate::startup::{Resources, RunningOperators, SignalHandler};
use crate::worker::{StopFlag, StopReport};

/// Additional time for workers to exit once the drain timeout has passed (it should only be needed if a
/// handler does not return).
const WORKER_END_MAX: Duration = Duration::from_secs(1);

/// A running server. Dropping it stops it as [`StopHandle::stop`] does, without waiting for responses in flight.
#[derive(Debug)]
#[must_use = "dropping a running server stops it"]
pub struct RunningServer {
    addresses: Addresses,
    workers: Vec<JoinHandle<()>>,
    stop: StopHandle,
    /// Not part of `stop` because handles may be dropped.
    _stop_when_dropped: StopWhenDropped,
    housekeeper: Option<HousekeeperHandle>,
    operators: RunningOperators,
    down_processes: DownProcesses,
    handover: UdpHandover,
    /// Removes local socket paths when dropped.
    _claims: Vec<Claim>,
    sandbox: Sandbox,
    sandbox_report: SandboxReport,
    io: BackendChoice,
    on_notice: config::NoticeHandler,
    kept_signals: Option<KeptSignals>,
    /// The releases that were served first, for [`RunningServer::report_sites`].
    sites: Vec<SiteStatus>,
    /// The site directory and the number of its sites, for the same.
    site_directory: Option<(PathBuf, usize)>,
    /// Receives the stop order, followed by the progress of each worker.
    stop_reports: Receiver<StopReport>,
    drain: Duration,
}

/// Stops a server. May be cloned and sent to any thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    flag: Arc<StopFlag>,
    wakers: Vec<Waker>,
    status: Arc<Status>,
    reports: Sender<StopReport>,
}

/// Stops a server when it is dropped.
#[derive(Debug)]
struct StopWhenDropped(StopHandle);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl StopHandle {
    /// Stops accepting connections.
    ///
    /// Responses in flight may still finish within the configured drain timeout; use [`RunningServer::wait`]
    /// to wait for them.
    pub fn stop(&self) {
        self.status.set_draining();
        self.flag.set();
        // We can ignore an error here: it means that no thread is waiting for the server.
        let _ = self.reports.send(StopReport::Ordered);
        for waker in &self.wakers {
            waker.wake();
        }
    }
}

/// Wakes all workers of a server. May be cloned and sent to any thread.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct WakeHandle(Vec<Waker>);

impl WakeHandle {
    /// Makes the workers check again for pages that clients are waiting for (see
    /// [`config::LivePage::Pending`]).
    pub fn wake(&self) {
        for waker in &self.0 {
            waker.wake();
        }
    }
}

impl RunningServer {
    /// Opens the content, binds the addresses and starts the workers. By the time this returns, the server accepts
    /// connections.
    ///
    /// # Errors
    /// Returns an error if a file or an address cannot be opened, or if the sandbox cannot be entered.
    // Only for our own programs. Others use `Server::start`.
    #[doc(hidden)]
    pub fn start(config: &Config) -> Result<RunningServer, StartError> {
        let opened = Resources::open(config)?;
        // Threads inherit the sandbox of the thread that starts them, so this needs to happen before we start
        // any.
        let (sandbox, sandbox_report) = Sandbox::enter(&opened.sandbox(config))?;
        opened.serve(config, sandbox, sandbox_report)
    }

    /// Returns the addresses that the server listens on.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    /// Reports which releases are being served. Callers should do this once, after the server has started.
    // Only for our own programs.
    #[doc(hidden)]
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
        if let Some((path, sites)) = self.site_directory.clone() {
            (self.on_notice.0)(&Notice::ServingDirectory { path, sites });
        }
    }

    /// Returns a handle that wakes the workers.
    // Only for our own programs.
    #[doc(hidden)]
    #[must_use]
    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle(self.stop.wakers.clone())
    }

    /// Returns the event loop backend in use, and why it was chosen.
    // Only for our own programs.
    #[doc(hidden)]
    #[must_use]
    pub fn io(&self) -> &BackendChoice {
        &self.io
    }

    /// Returns the sandbox layers that are in force.
    // Only for our own programs.
    #[doc(hidden)]
    #[must_use]
    pub fn sandbox_report(&self) -> &SandboxReport {
        &self.sandbox_report
    }

    /// Returns a handle to replace archives that were passed as open files, or `None` if there are none.
    // Only for our own programs.
    #[doc(hidden)]
    #[must_use]
    pub fn publisher(&self) -> Option<Publisher> {
        self.housekeeper.as_ref().map(HousekeeperHandle::publisher).filter(Publisher::has_archives)
    }

    /// Serves every release that `releases` receives from another process.
    ///
    /// `index` is that of the archive in the configuration (which must have been passed as an open file). In notices,
    /// the archive will be called `folder`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    // Only for our own programs.
    #[doc(hidden)]
    pub fn follow(&self, index: usize, folder: PathBuf, releases: ReleaseReceiver) -> Result<(), StartError> {
        let Some(publisher) = self.publisher() else { return Ok(()) };

        let on_notice = self.on_notice.clone();
        let stop = Arc::clone(&self.stop.flag);
        // The thread runs until the other process exits or the server stops.
        let run = move || {
            let end = loop {
                match releases.receive() {
                    // The sender waits until we acknowledge the release, so we do that even if we refuse it.
                    Ok(Some(file)) => match publisher.publish(index, file) {
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
            // One signal often stops both processes, in which case we have nothing to report.
            if !stop.is_set() {
                (on_notice.0)(&Notice::NotFollowed { path: folder, why: end });
            }
        };
        thread::start("releases", &self.sandbox, ThreadRole::Receiver, run)?;
        Ok(())
    }

    /// Restricts the calling thread to the system calls that are required to wait for the server and to
    /// remove Unix sockets. Without this, the thread can make any system call that some other thread
    /// needs.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the filter.
    // Only for our own programs.
    #[doc(hidden)]
    pub fn restrict_waiting_thread(&self) -> Result<(), StartError> {
        Ok(self.sandbox.enter_thread(ThreadRole::Main)?)
    }

    /// Returns a handle to stop the server from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Blocks until every worker has stopped because [`StopHandle::stop`] was called. Signals only stop a server that
    /// [`Server::run`] has started.
    ///
    /// Note that a worker cannot stop while it is running a handler that does not return. In that case,
    /// `wait` gives up after the drain timeout and leaves the thread to exit with the process.
    pub fn wait(self) {
        let stuck = self.await_workers();
        if stuck > 0 {
            (self.on_notice.0)(&Notice::WorkersStuck { threads: stuck });
        } else {
            for worker in self.workers {
                // If the worker panicked, the panic hook has already reported it.
                let _ = worker.join();
            }
        }
        self.operators.stop();
    }

    /// Waits until the workers have exited or the time for it is over. Returns the number of workers
    /// still running.
    fn await_workers(&self) -> usize {
        let mut running = self.workers.len();
        let mut accepting = running;
        let mut connections = 0;
        let mut end = None;

        // The time limit is not known until the stop order arrives, so wait without one until then.
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
                    // Wait until all workers have counted their connections, so that the sum is only
                    // reported once.
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

    /// Starts to act on signals, including any that arrived while the server was starting.
    ///
    /// SIGINT, SIGTERM and SIGQUIT stop the server gracefully (a second one ends it immediately), and SIGHUP
    /// checks for new releases. This should be called before announcing that the server is ready. The service
    /// manager will hear of reloads and the shutdown through `notify`.
    ///
    /// # Errors
    /// Returns an error if a thread or a signal handler cannot be started.
    // Only for our own programs.
    #[doc(hidden)]
    pub fn handle_signals(&self, notify: Notify) -> Result<(), StartError> {
        if let Some(supervisor) = notify.supervisor() {
            let wakers = self.stop.wakers.clone();
            self.down_processes.clone().follow(supervisor, self.handover.clone(), wakers, &self.sandbox)?;
        }

        let reopen = self.operators.log.as_ref().map(LogWriter::reopen_handle);
        let handler = SignalHandler {
            signals: KeptSignals::take(self.kept_signals.as_ref()).map_err(StartError::Signals)?,
            stop: self.stop.clone(),
            housekeeper: self.housekeeper.clone(),
            reopen,
            notify,
            on_notice: self.on_notice.clone(),
        };
        handler.start(&self.sandbox)
    }
}
