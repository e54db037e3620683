//! The server: puts the parts together and keeps them running.
//!
//! [`Server::start`] opens the archive, binds and spawns the workers; [`Server::wait`] waits until
//! it has stopped. Never holds protocol or kernel detail.

#![forbid(unsafe_code)]

pub mod config;

mod connection;
mod content;
mod current;
mod error;
mod notice;
mod observer;
mod reload;
mod signals;
#[cfg(test)]
mod simulation;
mod sites;
mod slab;
mod unsent;
mod worker;

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use cannery_eventloop::{Claim, Listener, Waker};

pub use crate::config::Config;
pub use crate::error::StartError;
pub use crate::notice::Notice;

use crate::content::Content;
use crate::current::Current;
use crate::reload::{ReloadOrder, Reloader};
use crate::worker::StopOrder;

/// A running server.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    workers: Vec<JoinHandle<()>>,
    stop: Stop,
    reload: Option<ReloadOrder>,
}

/// Orders a server to stop, from any thread.
#[derive(Debug, Clone)]
pub struct Stop {
    order: Arc<StopOrder>,
    wakers: Vec<Waker>,
}

impl Stop {
    /// No new connections from now on; those that are sending may finish within the time that the
    /// configuration gives them.
    pub fn order(&self) {
        self.order.give();
        self.wakers.iter().for_each(Waker::wake);
    }
}

impl Server {
    /// Opens what is to be served, listens, and starts the workers. When it returns, connections are
    /// accepted.
    pub fn start(config: &Config) -> Result<Server, StartError> {
        let reloader = Reloader::new(config);
        let (content, leases) = Content::open(config)?;
        let current = Arc::new(Current::new(Arc::new(content)));
        let claims = config.listen.iter().map(claim).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<SocketAddr> = claims.iter().map(Claim::address).collect();
        let order = Arc::new(StopOrder::default());
        let (started, starts) = mpsc::channel();
        let (mut workers, mut wakers) = (Vec::new(), Vec::new());
        for number in 0..config.threads.get() {
            let waker = Waker::new().map_err(StartError::EventLoop)?;
            wakers.push(waker.clone());
            let listeners = addresses.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
            let plan = worker::Plan::new(config, listeners, Arc::clone(&current), Arc::clone(&order));
            let started = started.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            workers
                .push(thread.spawn(move || worker::run(plan, waker, started)).map_err(StartError::Thread)?);
        }
        drop(started);
        let stop = Stop { order, wakers: wakers.clone() };
        let all_started: Result<Vec<()>, StartError> = starts.into_iter().collect();
        // Where one worker cannot start, the others must not go on without anybody to stop them.
        all_started.inspect_err(|_| stop.order())?;
        drop(claims);
        let reload = reloader.map(|reloader| reloader.start(leases, current, wakers)).transpose();
        let reload = reload.inspect_err(|_| stop.order()).map_err(StartError::Thread)?;
        Ok(Server { addresses, workers, stop, reload })
    }

    /// Where the server listens, in the order of the configuration.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What orders this server to stop.
    #[must_use]
    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until every worker has stopped; nothing else ends one but the order to.
    pub fn wait(self) {
        for worker in self.workers {
            // A worker that panicked has said so on its way out; the others end in good order.
            let _ = worker.join();
        }
    }

    /// From now on SIGINT and SIGTERM stop the server in good order, a second one ends it at once, and SIGHUP
    /// looks for new releases. To be called before anybody is told that the server is there.
    pub fn obey_signals(&self) -> Result<(), StartError> {
        signals::obey(self.stop.clone(), self.reload.clone()).map_err(StartError::Signals)
    }
}

/// A listener of one worker, beside those of the others.
fn listen(address: &SocketAddr) -> Result<Listener, StartError> {
    Listener::bind(*address).map_err(|source| StartError::Listen { address: *address, source })
}

fn claim(address: &SocketAddr) -> Result<Claim, StartError> {
    Claim::new(*address).map_err(|source| StartError::Listen { address: *address, source })
}
