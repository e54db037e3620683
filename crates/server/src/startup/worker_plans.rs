//! Makes the workers' plans from the open resources.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use cannery_eventloop::{Balancer, Listener, UdpSocket, Waker};
use cannery_transport::Context;

use crate::config::{Config, ListenerKind, Standby};
use crate::content::Current;
use crate::http3::Http3Plan;
use crate::notice::Notice;
use crate::observe::{Counters, LogWriter, Observer};
use crate::process::{DownProcesses, Handover};
use crate::routes::{Pools, Watchdog, WorkerRoutes};
use crate::worker::{Plan, StopFlag, StopReport, StopReporter};

/// Parts that all plans have in common.
pub(super) struct WorkerPlans<'a> {
    pub(super) config: &'a Config,
    pub(super) current: Arc<Current>,
    pub(super) stop: Arc<StopFlag>,
    pub(super) log: Option<&'a LogWriter>,
    pub(super) tls: Option<Context>,
    pub(super) down_processes: DownProcesses,
    pub(super) handover: Handover,
    pub(super) https_port: Option<u16>,
    pub(super) memory_bytes_max: u64,
    /// Handler threads, or `None` if the server has no routes.
    pub(super) pools: Option<Pools>,
    /// Watches handlers. `None` if the server has no routes.
    pub(super) watchdog: Option<&'a mut Watchdog>,
    pub(super) stop_reporter: Sender<StopReport>,
    pub(super) notices: Sender<Notice>,
}

/// Parts of a plan that belong to one worker.
pub(super) struct OwnParts {
    pub(super) counters: Arc<Counters>,
    pub(super) listeners: Vec<(ListenerKind, Listener)>,
    pub(super) waker: Waker,
    pub(super) balancer: Balancer,
    pub(super) standby: Vec<Standby<Listener>>,
    /// HTTP/3 plan and `Alt-Svc` value. `None` if the worker does not serve HTTP/3.
    pub(super) http3: Option<(Http3Plan<UdpSocket>, String)>,
}

impl WorkerPlans<'_> {
    /// Returns the plan of each worker, and the waker of the event loop.
    ///
    /// Note that this drops our own notice sender and pools, after which only workers have any. This way, the
    /// threads at the other ends will notice when the last worker exits.
    pub(super) fn into_plans(mut self, workers: impl Iterator<Item = OwnParts>) -> Vec<(Plan, Waker)> {
        workers.map(|own| self.plan(own)).collect()
    }

    fn plan(&mut self, own: OwnParts) -> (Plan, Waker) {
        let OwnParts { counters, listeners, waker, balancer, standby, http3 } = own;
        let counted = self.config.counts().then_some(counters);
        let observer = Observer::new(counted, self.log.map(LogWriter::buffer));

        let routes = self.config.routes().cloned().zip(self.pools.clone()).zip(self.watchdog.as_deref_mut());
        let routes = routes.map(|((routes, pools), watchdog)| {
            WorkerRoutes::new(routes, pools, waker.clone(), self.notices.clone(), watchdog)
        });

        let plan =
            Plan::new(self.config, listeners, Arc::clone(&self.current), Arc::clone(&self.stop), observer);
        let plan = plan
            .with_balancer(balancer)
            .with_standby(standby, self.down_processes.clone())
            .with_https_port(self.https_port)
            .with_tls(self.tls.clone())
            .with_memory_bytes_max(self.memory_bytes_max)
            .with_stop_reporter(StopReporter::new(self.stop_reporter.clone()))
            .with_notices(self.notices.clone())
            .with_routes(routes);
        let plan = match http3 {
            Some((http3, alt_svc)) => plan.with_http3(http3, alt_svc).with_handover(self.handover.clone()),
            None => plan,
        };
        (plan, waker)
    }
}
