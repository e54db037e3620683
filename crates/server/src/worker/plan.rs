//! Everything that a worker needs to start, and the flag that stops it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use cannery_eventloop::{Balancer, Listener, UdpSocket};
use cannery_secure::Context;
use cannery_wire::limits::CONNECTIONS_BYTES_MAX;

use crate::config::{Config, ListenerKind, Standby};
use crate::connection::{AddedFields, ITERATION_BYTES_MAX, Policy};
use crate::http3::Http3Plan;
use crate::notice::Notice;
use crate::observe::Observer;
use crate::process::{DownProcesses, Handover};
use crate::reload::Current;
use crate::routes::WorkerRoutes;

/// Stops workers. Each checks the flag after it was woken up.
#[derive(Debug, Default)]
pub(crate) struct StopFlag(AtomicBool);

impl StopFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The progress of a shutdown, for the thread that waits for the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReport {
    /// The workers are ordered to stop.
    Ordered,
    /// A worker has stopped accepting, and has this many connections.
    Draining { connections: usize },
    /// A worker has ended.
    Ended,
}

/// Reports the progress of one worker. Its end is reported when this is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct StopReporter(Sender<StopReport>);

impl StopReporter {
    pub(crate) fn new(reports: Sender<StopReport>) -> StopReporter {
        StopReporter(reports)
    }

    /// Reports the number of connections that are open when the worker stops.
    pub(super) fn draining(&self, connections: usize) {
        // The receiver may have been dropped, as in tests.
        let _ = self.0.send(StopReport::Draining { connections });
    }
}

impl Drop for StopReporter {
    fn drop(&mut self) {
        // As above.
        let _ = self.0.send(StopReport::Ended);
    }
}

/// Everything that a worker needs to start.
pub(crate) struct Plan<L = Listener, D = UdpSocket> {
    pub(super) policy: Policy,
    pub(super) listeners: Vec<(ListenerKind, L)>,
    pub(super) http3: Option<Http3Plan<D>>,
    /// The order to leave the UDP sockets to a program that takes over.
    pub(super) handover: Handover,
    pub(super) current: Arc<Current>,
    pub(super) fields: AddedFields,
    pub(super) drain: Duration,
    pub(super) stop: Arc<StopFlag>,
    pub(super) connections_max: usize,
    /// Whether the worker's thread gets a descriptor table of its own, with only the descriptors that it needs.
    pub(super) owns_descriptors: bool,
    pub(super) observer: Observer,
    pub(super) balancer: Option<Balancer>,
    pub(super) stop_reporter: Option<StopReporter>,
    /// Receives notices to the operator.
    pub(super) notices: Option<Sender<Notice>>,
    /// The routes of the server, if it has any.
    pub(super) routes: Option<WorkerRoutes>,
    /// Listeners of other processes.
    pub(super) standby: Vec<Standby<L>>,
    /// Which of the other processes are down.
    pub(super) down_processes: DownProcesses,
}

impl<L, D> Plan<L, D> {
    pub(crate) fn new(
        config: &Config,
        listeners: impl IntoIterator<Item = (ListenerKind, L)>,
        current: Arc<Current>,
        stop: Arc<StopFlag>,
        observer: Observer,
    ) -> Plan<L, D> {
        let headers = config.security_headers;
        let plain_headers = if config.has_tls() { headers.without_tls() } else { headers };
        let connections_max = config.connections_max.map_or(usize::MAX, NonZeroUsize::get);

        Plan {
            policy: Policy {
                timeouts: config.timeouts,
                has_http1: config.http1,
                has_http2: config.http2,
                expects_proxy_header: config.proxy_protocol,
                https_port: None,
                live_folder: config.live_folder.clone(),
                tls: None,
                iteration_bytes_max: ITERATION_BYTES_MAX,
                memory_bytes_max: CONNECTIONS_BYTES_MAX,
            },
            listeners: listeners.into_iter().collect(),
            http3: None,
            handover: Handover::default(),
            current,
            fields: AddedFields {
                plain: plain_headers.fields(),
                tls: headers.fields(),
                alt_svc: None,
                keeps_redirects: config.keeps_redirects,
            },
            drain: config.drain,
            stop,
            connections_max: connections_max.div_ceil(config.threads.get()),
            // A profiler interrupts the worker, and writes to a descriptor of the process.
            owns_descriptors: config.profiler_file.is_none(),
            observer,
            balancer: None,
            stop_reporter: None,
            notices: None,
            routes: None,
            standby: Vec::new(),
            down_processes: DownProcesses::default(),
        }
    }

    /// Balances connections with other workers.
    pub(crate) fn with_balancer(self, balancer: Balancer) -> Plan<L, D> {
        Plan { balancer: Some(balancer), ..self }
    }

    /// Lets handlers answer requests. They may need descriptors of the process.
    pub(crate) fn with_routes(self, routes: Option<WorkerRoutes>) -> Plan<L, D> {
        let owns_descriptors = self.owns_descriptors && routes.is_none();
        Plan { routes, owns_descriptors, ..self }
    }

    /// Serves the listeners of other processes while these are down.
    pub(crate) fn with_standby(self, standby: Vec<Standby<L>>, down_processes: DownProcesses) -> Plan<L, D> {
        Plan { standby, down_processes, ..self }
    }

    /// Redirects requests without TLS to this port of `https`.
    pub(crate) fn with_https_port(self, https_port: Option<u16>) -> Plan<L, D> {
        Plan { policy: Policy { https_port, ..self.policy }, ..self }
    }

    /// Reports when the worker stops.
    pub(crate) fn with_stop_reporter(self, stop_reporter: StopReporter) -> Plan<L, D> {
        Plan { stop_reporter: Some(stop_reporter), ..self }
    }

    /// Sends notices to the operator.
    pub(crate) fn with_notices(self, notices: Sender<Notice>) -> Plan<L, D> {
        Plan { notices: Some(notices), ..self }
    }

    /// Serves HTTP/3, unless the worker has no socket for it, and refers clients to it by `alt_svc`.
    pub(crate) fn with_http3(self, http3: Http3Plan<D>, alt_svc: String) -> Plan<L, D> {
        let fields = AddedFields { alt_svc: Some(alt_svc), ..self.fields };
        let http3 = Some(http3).filter(|http3| !http3.sockets.is_empty());
        Plan { http3, fields, ..self }
    }

    /// Leaves the UDP sockets to another program when this is ordered.
    pub(crate) fn with_handover(self, handover: Handover) -> Plan<L, D> {
        Plan { handover, ..self }
    }

    /// Makes TLS sessions from this context.
    pub(crate) fn with_tls(self, tls: Option<Context>) -> Plan<L, D> {
        Plan { policy: Policy { tls, ..self.policy }, ..self }
    }

    /// Limits the memory that all connections together may take, in bytes.
    pub(crate) fn with_memory_bytes_max(self, memory_bytes_max: u64) -> Plan<L, D> {
        Plan { policy: Policy { memory_bytes_max, ..self.policy }, ..self }
    }

    /// Limits the bytes that a connection may receive and send in one loop iteration.
    #[cfg(test)]
    pub(crate) fn with_iteration_bytes_max(self, iteration_bytes_max: u64) -> Plan<L, D> {
        Plan { policy: Policy { iteration_bytes_max, ..self.policy }, ..self }
    }

    /// Reports to this observer.
    #[cfg(test)]
    pub(crate) fn with_observer(self, observer: Observer) -> Plan<L, D> {
        Plan { observer, ..self }
    }

    /// Serves the admin pages. Operators connect without a proxy in between. A worker that collects statistics of other
    /// processes needs their sockets, which are in the process's descriptor table.
    pub(crate) fn for_admin(self, collects_stats: bool) -> Plan<L, D> {
        let policy = Policy { expects_proxy_header: false, ..self.policy };
        Plan { policy, owns_descriptors: self.owns_descriptors && !collects_stats, ..self }
    }
}
