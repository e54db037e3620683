//! Starts the workers.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use cannery_eventloop::{Claim, Waker};
use cannery_transport::Context;

use super::shared::Shared;
use super::sockets::{Sockets, WorkerSockets};
use crate::Address;
use crate::config::{Config, ListenerKind};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{Counters, LogWriter, Observer};
use crate::routes::{Pools, Watchdog, WorkerRoutes};
use crate::sandbox::Sandbox;
use crate::worker::{self, Backend, Plan, StopReporter};

/// Resources and settings that all workers have in common.
pub(super) struct Workers<'a> {
    pub(super) config: &'a Config,
    pub(super) shared: &'a Shared,
    pub(super) log: Option<&'a LogWriter>,
    pub(super) tls: Option<Context>,
    pub(super) memory_bytes_max: u64,
    /// Handler threads, or `None` if the server has no routes.
    pub(super) pools: Option<Pools>,
    /// Watches handlers. `None` if the server has no routes.
    pub(super) watchdog: Option<&'a mut Watchdog>,
    pub(super) notices: Sender<Notice>,
}

impl Workers<'_> {
    /// Starts the threads. By the time this returns, all of them accept connections. Also returns the reservations that
    /// remove Unix sockets.
    ///
    /// Note that this drops our own notice sender and pools, after which only workers have any. This way, the threads at
    /// the other ends will notice when the last worker exits.
    ///
    /// # Errors
    /// Returns an error if a worker cannot start, in which case the others are stopped.
    pub(super) fn start(
        mut self,
        sockets: Sockets,
        io: Backend,
        sandbox: &Sandbox,
    ) -> Result<(Vec<JoinHandle<()>>, Vec<Claim>), StartError> {
        let addresses = sockets.addresses().listeners;
        let (sockets, mut claims) = sockets.into_workers(&self.notices)?;
        let shared = self.shared;
        let workers = shared.counters.iter().zip(sockets);
        let plans = workers.map(|(counters, sockets)| self.plan(counters, sockets, &addresses)).collect();
        let threads = worker::start_all("worker", io, plans, sandbox).inspect_err(|_| shared.stop.stop())?;

        // The listeners reserve the addresses now.
        claims.retain(|claim| matches!(claim, Claim::Local { .. }));
        Ok((threads, claims))
    }

    /// Returns the plan of a worker, and the waker of its event loop.
    fn plan(
        &mut self,
        counters: &Arc<Counters>,
        sockets: WorkerSockets,
        addresses: &[(ListenerKind, Address)],
    ) -> (Plan, Waker) {
        let Workers { config, shared, .. } = *self;
        let WorkerSockets { listeners, standby, waker, balancer, http3 } = sockets;
        let counters = config.counts().then(|| Arc::clone(counters));
        let observer = Observer::new(counters, self.log.map(LogWriter::buffer));

        let routes = config.routes().cloned().zip(self.pools.clone()).zip(self.watchdog.as_deref_mut());
        let routes = routes.map(|((routes, pools), watchdog)| {
            WorkerRoutes::new(routes, pools, waker.clone(), self.notices.clone(), watchdog)
        });

        let stop = Arc::clone(&shared.stop.flag);
        let plan = Plan::new(config, listeners, Arc::clone(&shared.current), stop, observer)
            .with_balancer(balancer)
            .with_standby(standby, shared.down_processes.clone())
            .with_https_port(config.https_redirect.map(|redirect| redirect.port(addresses)))
            .with_tls(self.tls.clone())
            .with_memory_bytes_max(self.memory_bytes_max)
            .with_stop_reporter(StopReporter::new(shared.stop.reports.clone()))
            .with_notices(self.notices.clone())
            .with_routes(routes);
        let plan = match http3 {
            Some((http3, alt_svc)) => plan.with_http3(http3, alt_svc).with_handover(shared.handover.clone()),
            None => plan,
        };
        (plan, waker)
    }
}
