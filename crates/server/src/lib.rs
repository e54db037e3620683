//! The server: puts the parts together and keeps them running.
//!
//! [`Server::start`] opens the archive, binds and spawns the workers; [`Server::wait`] waits until
//! it has stopped. Never holds protocol or kernel detail.

#![forbid(unsafe_code)]

pub mod cage;
pub mod config;

mod access_log;
mod admin;
mod admin_server;
#[cfg(test)]
mod allocations;
mod answered;
mod asking;
mod challenges;
mod confirmed;
mod connection;
mod content;
mod current;
mod due;
mod dummy;
mod error;
mod exchange;
mod figures;
mod guarded;
pub mod inheritance;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod io_choice;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod io_choice_portable;
#[cfg(test)]
mod limits_page;
mod listening;
mod memory;
mod metrics;
mod notice;
pub mod notify;
mod observer;
#[cfg(any(test, feature = "turns"))]
mod one_peer;
mod opened;
mod operators;
mod own_page;
mod own_pages;
mod process;
mod protocol;
mod receiving;
mod releases;
mod reload;
mod report;
mod secured;
mod shared;
mod signals;
#[cfg(test)]
mod simulation;
mod sites;
mod slab;
mod special;
mod stamp;
mod status;
pub mod supervisor;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod system;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod system_portable;
pub mod takeover;
mod thread;
mod tls;
mod transport;
mod trusted_proxies;
#[cfg(any(test, feature = "turns"))]
pub mod turns;
mod unsent;
mod vacancies;
mod with_loop;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use cannery_eventloop::Waker;
pub use cannery_eventloop::{Address, Claim, Listener};

pub use crate::config::Config;
pub use crate::error::StartError;
pub use crate::io_choice::{IoChoice, Loop};
pub use crate::listening::Listening;
pub use crate::notice::Notice;
pub use crate::operators::Operators;
pub use crate::system::end_with_parent;

#[cfg(any(feature = "portable", not(target_os = "linux")))]
use crate::{io_choice_portable as io_choice, system_portable as system};

use crate::access_log::LogWriter;
use crate::admin_server::AdminServer;
use crate::cage::{Cage, Held};
use crate::config::ListenerKind;
use crate::notify::Notify;
use crate::opened::Opened;
use crate::reload::ReloadOrder;
use crate::report::Report;
use crate::status::{SiteStatus, Status};
use crate::vacancies::Vacancies;
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
    cage: Cage,
    held: Held,
    io: IoChoice,
    listener: config::Listener,
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
        let opened = Opened::open(config)?;
        // Threads are started inside, for they inherit what holds the first one.
        let (cage, held) = Cage::enter(&opened.cage(config))?;
        opened.serve(config, cage, held)
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
            (self.listener.0)(&Notice::Serving {
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
    pub fn io(&self) -> &IoChoice {
        &self.io
    }

    /// What holds the process.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Waits until every worker has stopped; nothing else ends one but the order to.
    pub fn wait(self) {
        // Each worker sends one number, when it stops: this waits for the order to.
        let connections: usize = self.draining.iter().sum();
        if connections > 0 && !self.drain.is_zero() {
            (self.listener.0)(&Notice::Draining { connections, within: self.drain });
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
    pub fn obey_signals(&self, notify: Notify) -> Result<(), StartError> {
        if let Some(supervisor) = notify.supervisor() {
            self.vacancies.clone().follow(supervisor, self.stop.wakers.clone(), &self.cage)?;
        }
        let reopen = self.log.as_ref().map(LogWriter::reopen);
        signals::obey(
            self.stop.clone(),
            self.reload.clone(),
            reopen,
            notify,
            self.listener.clone(),
            &self.cage,
        )
    }
}
