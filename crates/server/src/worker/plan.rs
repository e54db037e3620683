//! What a worker is told before it starts, and the order to stop.
//!
//! Never starts one.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use cannery_eventloop::{Balancer, Listener};
use cannery_secure::Context;
use cannery_wire::limits::CONNECTIONS_BYTES_MAX;

use crate::config::{Config, ListenerKind, Timeouts};
use crate::connection::{AddedFields, TURN_BYTES_MAX};
use crate::observe::Observer;
use crate::process::{Standby, Vacancies};
use crate::reload::Current;

/// The order to stop, which a worker looks at when it is woken.
#[derive(Debug, Default)]
pub(crate) struct StopOrder(AtomicBool);

impl StopOrder {
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_given(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a worker needs to know before it starts: all that threads share, and nothing that changes.
pub(crate) struct Plan<L = Listener> {
    pub(super) listeners: Vec<L>,
    /// What is spoken on the connections of each.
    pub(super) kinds: Vec<ListenerKind>,
    pub(super) current: Arc<Current>,
    pub(super) fields: AddedFields,
    pub(super) https_port: Option<u16>,
    pub(super) http1: bool,
    pub(super) http2: bool,
    pub(super) tls: Option<Context>,
    pub(super) timeouts: Option<Timeouts>,
    pub(super) drain: Duration,
    pub(super) stop: Arc<StopOrder>,
    pub(super) connections_max: usize,
    pub(super) proxied: bool,
    /// Whether the worker has a table of descriptors of its own, with nothing in it but what serving needs.
    pub(super) owns_descriptors: bool,
    pub(super) observer: Observer,
    pub(super) turn_bytes_max: u64,
    /// What all connections together may keep in memory.
    pub(super) memory_max: u64,
    pub(super) balancer: Option<Balancer>,
    /// Receives the number of connections that the worker waits for when it stops.
    pub(super) draining: Option<Sender<usize>>,
    /// Listeners of other processes, and which of these are gone.
    pub(super) standby: Vec<Standby<L>>,
    pub(super) vacancies: Vacancies,
}

impl<L> Plan<L> {
    pub(crate) fn new(
        config: &Config,
        listeners: impl IntoIterator<Item = (ListenerKind, L)>,
        current: Arc<Current>,
        stop: Arc<StopOrder>,
        observer: Observer,
    ) -> Plan<L> {
        let (kinds, listeners) = listeners.into_iter().unzip();
        let headers = config.security_headers;
        let in_the_clear = if config.has_tls() { headers.without_tls() } else { headers };
        let fields = AddedFields {
            plain: in_the_clear.fields(),
            secured: headers.fields(),
            keeps_redirects: config.keeps_redirects,
        };
        let (timeouts, drain) = (config.timeouts, config.drain);
        let of_all = config.connections_max.map_or(usize::MAX, NonZeroUsize::get);
        let connections_max = of_all.div_ceil(config.threads.get());
        let proxied = config.proxy_protocol;
        Plan {
            listeners,
            kinds,
            current,
            fields,
            https_port: None,
            http1: config.http1,
            http2: config.http2,
            tls: None,
            timeouts,
            drain,
            stop,
            connections_max,
            proxied,
            owns_descriptors: true,
            observer,
            turn_bytes_max: TURN_BYTES_MAX,
            memory_max: CONNECTIONS_BYTES_MAX,
            balancer: None,
            draining: None,
            standby: Vec::new(),
            vacancies: Vacancies::default(),
        }
    }

    /// The same for a worker that shares connections with others.
    pub(crate) fn beside(self, balancer: Balancer) -> Plan<L> {
        Plan { balancer: Some(balancer), ..self }
    }

    /// The same for a worker that serves the listeners of other processes while these are gone.
    pub(crate) fn with_standby(self, standby: Vec<Standby<L>>, vacancies: Vacancies) -> Plan<L> {
        Plan { standby, vacancies, ..self }
    }

    /// The same for a server that sends what is asked in the clear to this port of `https`.
    pub(crate) fn with_https_port(self, https_port: Option<u16>) -> Plan<L> {
        Plan { https_port, ..self }
    }

    /// The same with a place to report to how many connections it waits for when it stops.
    pub(crate) fn reporting(self, draining: Sender<usize>) -> Plan<L> {
        Plan { draining: Some(draining), ..self }
    }

    /// The same with what makes TLS of its connections.
    pub(crate) fn with_tls(self, tls: Option<Context>) -> Plan<L> {
        Plan { tls, ..self }
    }

    /// The same with a bound on what all connections together may keep in memory, in bytes.
    pub(crate) fn with_memory_max(self, memory_max: u64) -> Plan<L> {
        Plan { memory_max, ..self }
    }

    /// The same with another bound on what a connection may receive and send in a turn.
    #[cfg(test)]
    pub(crate) fn with_turn_bytes_max(self, turn_bytes_max: u64) -> Plan<L> {
        Plan { turn_bytes_max, ..self }
    }

    /// The same with somebody who watches.
    #[cfg(test)]
    pub(crate) fn with_observer(self, observer: Observer) -> Plan<L> {
        Plan { observer, ..self }
    }

    /// The same for a listener of operators: they ask without a proxy between. One that asks other processes needs their
    /// sockets, which are in the process's table.
    pub(crate) fn for_operators(self, asks_others: bool) -> Plan<L> {
        Plan { proxied: false, owns_descriptors: !asks_others, ..self }
    }
}
