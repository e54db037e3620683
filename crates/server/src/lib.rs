//! The server: puts the parts together and keeps them running.
//!
//! [`Server::start`] opens the archive, binds and spawns the workers; [`Server::wait`] waits until
//! it has stopped. Never holds protocol or kernel detail.

#![forbid(unsafe_code)]

// From the whole to its parts: a module imports only modules that are listed after it.

// Opens files and sockets, starts the threads, obeys signals.
mod startup;

// One serving thread: its event loop, its listeners, its connections.
mod worker;

// One connection: TLS, HTTP/1 or HTTP/2, deadlines, sending.
mod connection;

// Replaces archives and certificates while the server runs.
mod reload;

// Which site answers a request, and with what.
mod content;

// Pages and metrics for operators.
mod admin;

// Counters, the access log, and the state of the server as a whole.
mod observe;

// Pages that the server itself has: `/__/` and ACME challenges.
mod pages;

// Several processes: listening sockets, supervisor, takeover, service manager.
pub mod process;

// What all of the above need.
mod thread;

mod error;

pub mod config;

mod notice;

// Landlock, seccomp and credentials.
pub mod sandbox;

// For tests: a simulated network, and single iterations of a worker.
#[cfg(test)]
mod simulation;

#[cfg(any(test, feature = "stepper"))]
pub mod stepper;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use cannery_eventloop::Waker;
pub use cannery_eventloop::{Address, Claim, Listener};

pub use crate::config::Config;
pub use crate::error::StartError;
pub use crate::notice::Notice;
pub use crate::process::Listening;
pub use crate::process::end_with_parent;
pub use crate::startup::Operators;
pub use crate::worker::{Backend, BackendChoice};

use crate::config::ListenerKind;
use crate::observe::{LogWriter, Report, SiteStatus, Status};
use crate::process::Vacancies;
use crate::process::notify::Notify;
use crate::reload::ReloadOrder;
use crate::sandbox::{Sandbox, SandboxReport};
use crate::startup::{AdminServer, Resources};
use crate::worker::StopOrder;

/// A running server.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<(ListenerKind, Address)>,
    workers: Vec<JoinHandle<()>>,
    stop: Stop,
    reload: Option<ReloadOrder>,
    log: Option<LogWriter>,
    admin: Option<AdminServer>,
    report: Option<Report>,
    vacancies: Vacancies,
    /// Removes the paths of local sockets at the end.
    _claims: Vec<Claim>,
    sandbox: Sandbox,
    sandbox_report: SandboxReport,
    io: BackendChoice,
    on_notice: config::NoticeHandler,
    /// What was served first.
    sites: Vec<SiteStatus>,
    /// How many connections each worker waits for when it stops.
    draining: Receiver<usize>,
    drain: Duration,
}

/// Orders a server to stop, from any thread.
#[derive(Debug, Clone)]
pub struct Stop {
    order: Arc<StopOrder>,
    wakers: Vec<Waker>,
    status: Arc<Status>,
}

impl Stop {
    /// No new connections from now on; those that are sending may finish within the time that the
    /// configuration gives them.
    pub fn order(&self) {
        self.status.drain();
        self.order.give();
        self.wakers.iter().for_each(Waker::wake);
    }
}

impl Server {
    /// Opens what is to be served, listens, and starts the workers. When it returns, connections are
    /// accepted.
    pub fn start(config: &Config) -> Result<Server, StartError> {
        let opened = Resources::open(config)?;
        // Threads are started inside, for they inherit what holds the first one.
        let (sandbox, sandbox_report) = Sandbox::enter(&opened.sandbox(config))?;
        opened.serve(config, sandbox, sandbox_report)
    }

    /// Where the server listens, in the order of the configuration, and for what.
    #[must_use]
    pub fn addresses(&self) -> &[(ListenerKind, Address)] {
        &self.addresses
    }

    /// Reports which releases are served: to be called once, when the server has started.
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

    /// What orders this server to stop.
    #[must_use]
    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Where an operator may ask, if anywhere.
    #[must_use]
    pub fn admin_address(&self) -> Option<Address> {
        self.admin.as_ref().map(AdminServer::address)
    }

    /// Which loop serves, and why.
    #[must_use]
    pub fn io(&self) -> &BackendChoice {
        &self.io
    }

    /// What holds the process.
    #[must_use]
    pub fn sandbox_report(&self) -> &SandboxReport {
        &self.sandbox_report
    }

    /// Waits until every worker has stopped; nothing else ends one but the order to.
    pub fn wait(self) {
        // Each worker sends one number, when it stops: this waits for the order to.
        let connections: usize = self.draining.iter().sum();
        if connections > 0 && !self.drain.is_zero() {
            (self.on_notice.0)(&Notice::Draining { connections, within: self.drain });
        }
        for worker in self.workers {
            // A worker that panicked has said so on its way out; the others end in good order.
            let _ = worker.join();
        }
        drop(self.report);
        // The last to go, so that they can be asked and written to until the end.
        if let Some(admin) = self.admin {
            admin.stop();
        }
        if let Some(log) = self.log {
            log.finish();
        }
    }

    /// From now on SIGINT and SIGTERM stop the server in good order, a second one ends it at once, and SIGHUP
    /// looks for new releases. To be called before anybody is told that the server is there.
    ///
    /// `notify` is told when releases are looked for and when the server stops.
    pub fn handle_signals(&self, notify: Notify) -> Result<(), StartError> {
        if let Some(supervisor) = notify.supervisor() {
            self.vacancies.clone().follow(supervisor, self.stop.wakers.clone(), &self.sandbox)?;
        }
        let reopen = self.log.as_ref().map(LogWriter::reopen);
        startup::handle_signals(
            self.stop.clone(),
            self.reload.clone(),
            reopen,
            notify,
            self.on_notice.clone(),
            &self.sandbox,
        )
    }
}
