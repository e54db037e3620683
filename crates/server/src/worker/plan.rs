//! Settings and resources that a worker needs to start, and the flag that stops it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use cannery_eventloop::{Balancer, Listener, UdpSocket};
use cannery_transport::Context;
use cannery_wire::limits::CONNECTIONS_BYTES_MAX;

use crate::config::{Config, ListenerKind, Standby};
use crate::connection::ITERATION_BYTES_MAX;
use crate::content::Current;
use crate::context::{AddedFields, LiveHook, Policy};
use crate::http3::Http3Plan;
use crate::notice::Notice;
use crate::observe::Observer;
use crate::process::{DownProcesses, UdpHandover};
use crate::routes::WorkerRoutes;

/// Tells workers to stop. They check it whenever they are woken up.
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

/// Progress of a shutdown. Sent to the thread that waits for the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReport {
    /// The workers have been ordered to stop.
    Ordered,
    /// A worker has stopped accepting, and still has this many connections.
    Draining { connections: usize },
    /// A worker has exited.
    Ended,
}

/// Reports the progress of one worker. The end is reported on drop, which covers panics, too.
#[derive(Debug)]
pub(crate) struct StopReporter(Sender<StopReport>);

impl StopReporter {
    pub(crate) fn new(reports: Sender<StopReport>) -> StopReporter {
        StopReporter(reports)
    }

    /// Reports how many connections are open when the worker stops accepting.
    pub(super) fn draining(&self, connections: usize) {
        // The receiver may have been dropped. Tests do that.
        let _ = self.0.send(StopReport::Draining { connections });
    }
}

impl Drop for StopReporter {
    fn drop(&mut self) {
        // As above.
        let _ = self.0.send(StopReport::Ended);
    }
}

/// Settings and resources that a worker needs to start.
pub(crate) struct Plan<L = Listener, D = UdpSocket> {
    pub(super) policy: Policy,
    pub(super) listeners: Vec<(ListenerKind, L)>,
    pub(super) http3: Option<Http3Plan<D>>,
    /// Tells the worker when to leave the UDP sockets to a process that takes over.
    pub(super) handover: UdpHandover,
    pub(super) current: Arc<Current>,
    pub(super) fields: AddedFields,
    pub(super) drain: Duration,
    pub(super) stop: Arc<StopFlag>,
    pub(super) connections_max: usize,
    /// Whether the worker's thread may get its own descriptor table containing only the descriptors it needs.
    pub(super) owns_descriptors: bool,
    pub(super) observer: Observer,
    pub(super) balancer: Option<Balancer>,
    pub(super) stop_reporter: Option<StopReporter>,
    /// Sends notices to the operator.
    pub(super) notices: Option<Sender<Notice>>,
    pub(super) routes: Option<WorkerRoutes>,
    /// Listeners of other processes, to be served while those are down.
    pub(super) standby: Vec<Standby<L>>,
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
                has_http1: config.versions.has_http1(),
                has_http2: config.versions.has_http2(),
                expects_proxy_header: config.proxy_protocol,
                https_port: None,
                live: LiveHook::new(config.live_folder.clone()),
                has_previews: config.site_directory.is_some(),
                tls: None,
                iteration_bytes_max: ITERATION_BYTES_MAX,
                memory_bytes_max: CONNECTIONS_BYTES_MAX,
            },
            listeners: listeners.into_iter().collect(),
            http3: None,
            handover: UdpHandover::default(),
            current,
            fields: AddedFields {
                plain: plain_headers.fields(),
                tls: headers.fields(),
                alt_svc: None,
                keeps_redirects: config.keeps_redirects,
                has_previews: config.site_directory.is_some(),
            },
            drain: config.drain,
            stop,
            connections_max: connections_max.div_ceil(config.threads.get()),
            // If there is a profiler, it interrupts the worker and writes to a descriptor of the process.
            owns_descriptors: config.profiler.as_ref().is_none_or(|profiler| profiler.file.is_none()),
            observer,
            balancer: None,
            stop_reporter: None,
            notices: None,
            routes: None,
            standby: Vec::new(),
            down_processes: DownProcesses::default(),
        }
    }

    /// Balances connections with the other workers.
    pub(crate) fn with_balancer(self, balancer: Balancer) -> Plan<L, D> {
        Plan { balancer: Some(balancer), ..self }
    }

    /// Lets handlers respond to requests. Since handlers might need any descriptor of the process, the worker
    /// will have to use the shared table.
    pub(crate) fn with_routes(self, routes: Option<WorkerRoutes>) -> Plan<L, D> {
        let owns_descriptors = self.owns_descriptors && routes.is_none();
        Plan { routes, owns_descriptors, ..self }
    }

    /// Serves the listeners of other processes while those are down.
    pub(crate) fn with_standby(self, standby: Vec<Standby<L>>, down_processes: DownProcesses) -> Plan<L, D> {
        Plan { standby, down_processes, ..self }
    }

    /// Redirects requests without TLS to `https` on this port.
    pub(crate) fn with_https_port(self, https_port: Option<u16>) -> Plan<L, D> {
        Plan { policy: Policy { https_port, ..self.policy }, ..self }
    }

    /// Reports the progress of a shutdown to `stop_reporter`.
    pub(crate) fn with_stop_reporter(self, stop_reporter: StopReporter) -> Plan<L, D> {
        Plan { stop_reporter: Some(stop_reporter), ..self }
    }

    /// Sends notices to the operator through `notices`.
    pub(crate) fn with_notices(self, notices: Sender<Notice>) -> Plan<L, D> {
        Plan { notices: Some(notices), ..self }
    }

    /// Serves HTTP/3, provided that the worker has a socket for it. `alt_svc` tells clients where to find it.
    pub(crate) fn with_http3(self, http3: Http3Plan<D>, alt_svc: String) -> Plan<L, D> {
        let fields = AddedFields { alt_svc: Some(alt_svc), ..self.fields };
        let http3 = Some(http3).filter(|http3| !http3.sockets.is_empty());
        Plan { http3, fields, ..self }
    }

    /// Leaves the UDP sockets to another process on request.
    pub(crate) fn with_handover(self, handover: UdpHandover) -> Plan<L, D> {
        Plan { handover, ..self }
    }

    /// Uses this context for TLS sessions.
    pub(crate) fn with_tls(self, tls: Option<Context>) -> Plan<L, D> {
        Plan { policy: Policy { tls, ..self.policy }, ..self }
    }

    /// Limits the memory of all connections together, in bytes.
    pub(crate) fn with_memory_bytes_max(self, memory_bytes_max: u64) -> Plan<L, D> {
        Plan { policy: Policy { memory_bytes_max, ..self.policy }, ..self }
    }

    /// Limits how many bytes a connection may receive and send per iteration.
    #[cfg(test)]
    pub(crate) fn with_iteration_bytes_max(self, iteration_bytes_max: u64) -> Plan<L, D> {
        Plan { policy: Policy { iteration_bytes_max, ..self.policy }, ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_observer(self, observer: Observer) -> Plan<L, D> {
        Plan { observer, ..self }
    }

    /// Prepares the worker for the admin pages. Operators do not connect through a proxy, so no PROXY header
    /// is expected. A worker that collects statistics from other processes also needs their sockets, which
    /// are in the shared descriptor table.
    pub(crate) fn for_admin(self, collects_stats: bool) -> Plan<L, D> {
        let policy = Policy { expects_proxy_header: false, ..self.policy };
        Plan { policy, owns_descriptors: self.owns_descriptors && !collects_stats, ..self }
    }
}
