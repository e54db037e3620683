//! The sum of all workers' counters at some moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use cannery_wire::Refusal;
use serde::{Deserialize, Serialize};

use super::histogram::Counts;
use super::{Counter, Counters, Http3Metric, MethodKind, Missing};

/// The sum of all workers' counters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) accepted: u64,
    pub(crate) closed: u64,
    pub(crate) timed_out: u64,
    pub(crate) shed: u64,
    pub(crate) broken: u64,
    pub(crate) bad_proxy_headers: u64,
    pub(crate) handshakes_full: u64,
    pub(crate) handshakes_resumed: u64,
    pub(crate) tls_failures: u64,
    pub(crate) bytes: u64,
    pub(crate) log_lines_dropped: u64,
    pub(crate) handlers_timed_out: u64,
    pub(crate) methods: [u64; MethodKind::ALL.len()],
    pub(crate) refusals: [u64; Refusal::ALL.len()],
    pub(crate) http3: [u64; Http3Metric::ALL.len()],
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) latency: Counts,
    pub(crate) latency_nanoseconds: u64,
    pub(crate) missing: Missing,
    /// Routes that have responded.
    pub(crate) routes: BTreeMap<String, RouteCounts>,
}

/// Responses of a route.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct RouteCounts {
    /// Responses by the first digit of their status, starting from 2.
    pub(crate) classes: [u64; 4],
    /// Sum of their durations.
    pub(crate) nanoseconds: u64,
}

impl RouteCounts {
    pub(crate) fn responses(&self) -> u64 {
        self.classes.iter().copied().fold(0, u64::saturating_add)
    }

    #[allow(clippy::cast_precision_loss, reason = "a sum for averages")]
    pub(crate) fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }
}

impl Snapshot {
    /// Returns the sum of the counters of `workers`.
    pub(crate) fn of(workers: &[Arc<Counters>]) -> Snapshot {
        let mut sum = Snapshot::default();
        for counters in workers {
            sum.add(counters);
        }
        sum
    }

    /// Adds the counters of a worker.
    fn add(&mut self, counters: &Counters) {
        // `closed` needs to be read before `accepted`. Otherwise, a connection that opens and closes in
        // between could make the number of open connections negative.
        self.closed += counters.closed.get();
        self.accepted += counters.accepted.get();
        self.timed_out += counters.timed_out.get();
        self.shed += counters.shed.get();
        self.broken += counters.broken.get();
        self.bad_proxy_headers += counters.bad_proxy_headers.get();
        self.handshakes_full += counters.handshakes_full.get();
        self.handshakes_resumed += counters.handshakes_resumed.get();
        self.tls_failures += counters.tls_failures.get();
        self.bytes += counters.bytes.get();
        self.log_lines_dropped += counters.log_lines_dropped.get();
        self.handlers_timed_out += counters.handlers_timed_out.get();

        for (sum, counter) in self.methods.iter_mut().zip(&counters.methods) {
            *sum += counter.get();
        }
        for (sum, counter) in self.refusals.iter_mut().zip(&counters.refusals) {
            *sum += counter.get();
        }
        for (sum, counter) in self.http3.iter_mut().zip(&counters.http3) {
            *sum += counter.get();
        }
        for (status, count) in counters.statuses() {
            *self.statuses.entry(status).or_default() += count;
        }
        self.latency_nanoseconds += counters.latency.read(&mut self.latency);
        counters.add_missing_to(&mut self.missing);
        for route in &counters.routes {
            let classes = route.classes.each_ref().map(Counter::get);
            let counts = RouteCounts { classes, nanoseconds: route.nanoseconds.get() };
            if counts.responses() > 0 {
                self.add_route(&route.pattern, counts);
            }
        }
    }

    /// Adds the counters of another process.
    pub(crate) fn merge(&mut self, other: &Snapshot) {
        let add = |sum: &mut u64, more: &u64| *sum = sum.saturating_add(*more);
        let pairs = [
            (&mut self.accepted, &other.accepted),
            (&mut self.closed, &other.closed),
            (&mut self.timed_out, &other.timed_out),
            (&mut self.shed, &other.shed),
            (&mut self.broken, &other.broken),
            (&mut self.bad_proxy_headers, &other.bad_proxy_headers),
            (&mut self.handshakes_full, &other.handshakes_full),
            (&mut self.handshakes_resumed, &other.handshakes_resumed),
            (&mut self.tls_failures, &other.tls_failures),
            (&mut self.bytes, &other.bytes),
            (&mut self.log_lines_dropped, &other.log_lines_dropped),
            (&mut self.handlers_timed_out, &other.handlers_timed_out),
            (&mut self.latency_nanoseconds, &other.latency_nanoseconds),
        ];
        for (sum, more) in pairs {
            add(sum, more);
        }

        for (sum, more) in self.methods.iter_mut().zip(&other.methods) {
            add(sum, more);
        }
        for (sum, more) in self.refusals.iter_mut().zip(&other.refusals) {
            add(sum, more);
        }
        for (sum, more) in self.http3.iter_mut().zip(&other.http3) {
            add(sum, more);
        }
        for (status, more) in &other.statuses {
            add(self.statuses.entry(*status).or_default(), more);
        }
        self.latency.merge(&other.latency);
        self.missing.merge(&other.missing);
        for (pattern, counts) in &other.routes {
            self.add_route(pattern, *counts);
        }
    }

    fn add_route(&mut self, pattern: &str, counts: RouteCounts) {
        let sums = self.routes.entry(pattern.to_owned()).or_default();
        for (sum, count) in sums.classes.iter_mut().zip(counts.classes) {
            *sum = sum.saturating_add(count);
        }
        sums.nanoseconds = sums.nanoseconds.saturating_add(counts.nanoseconds);
    }

    /// Counts all open connections of an exited process as broken.
    pub(crate) fn end_connections(&mut self) {
        self.broken = self.broken.saturating_add(self.open());
        self.closed = self.closed.max(self.accepted);
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }

    /// Returns the number of responses.
    pub(crate) fn requests(&self) -> u64 {
        self.statuses.values().copied().fold(0, u64::saturating_add)
    }

    /// Returns the number of responses in a status class. For example, 2 means 200 to 299.
    pub(crate) fn class(&self, class: u16) -> u64 {
        self.statuses
            .range(class * 100..class * 100 + 100)
            .map(|(_, count)| *count)
            .fold(0, u64::saturating_add)
    }
}
