//! Counters of a worker.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cannery_wire::Refusal;

use super::{Counter, Histogram, Http3Metric, Missing};

/// Routes with counters of their own. All further ones are counted together, because processes send each other statistics in one
/// datagram.
pub(crate) const COUNTED_ROUTES_MAX: usize = 256;

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

/// Counters of a worker. They are aligned so that workers do not share any cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// ID of the worker's thread. Set once the thread has started.
    pub(crate) thread: AtomicU32,
    pub(crate) accepted: Counter,
    pub(crate) closed: Counter,
    pub(crate) timed_out: Counter,
    /// Connections that were closed because all connections together took too much memory.
    pub(crate) shed: Counter,
    pub(crate) broken: Counter,
    /// Connections that did not start with the required PROXY header.
    pub(crate) bad_proxy_headers: Counter,
    /// Full TLS handshakes.
    pub(crate) handshakes_full: Counter,
    /// Resumed TLS handshakes.
    pub(crate) handshakes_resumed: Counter,
    /// Connections where TLS has failed.
    pub(crate) tls_failures: Counter,
    pub(crate) bytes: Counter,
    pub(crate) log_lines_dropped: Counter,
    /// Requests where a handler on the pool did not respond in time.
    pub(crate) handlers_timed_out: Counter,
    pub(crate) methods: [Counter; MethodKind::ALL.len()],
    pub(crate) refusals: [Counter; Refusal::ALL.len()],
    pub(crate) http3: [Counter; Http3Metric::ALL.len()],
    pub(crate) latency: Histogram,
    statuses: [Counter; STATUSES],
    missing: Mutex<Missing>,
    /// For each route, in the order of their numbers.
    pub(super) routes: Vec<RouteCounters>,
}

/// Counters of a route.
#[derive(Debug)]
pub(crate) struct RouteCounters {
    pub(super) pattern: String,
    /// Responses by the first digit of their status, starting from 2.
    pub(super) classes: [Counter; 4],
    /// Sum of their durations.
    pub(super) nanoseconds: Counter,
}

/// Request methods, as far as metrics distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodKind {
    Get,
    Head,
    Options,
    Other,
}

impl MethodKind {
    pub(crate) const ALL: [MethodKind; 4] =
        [MethodKind::Get, MethodKind::Head, MethodKind::Options, MethodKind::Other];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            MethodKind::Get => "GET",
            MethodKind::Head => "HEAD",
            MethodKind::Options => "OPTIONS",
            MethodKind::Other => "other",
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            thread: AtomicU32::new(0),
            accepted: Counter::default(),
            closed: Counter::default(),
            timed_out: Counter::default(),
            shed: Counter::default(),
            broken: Counter::default(),
            bad_proxy_headers: Counter::default(),
            handshakes_full: Counter::default(),
            handshakes_resumed: Counter::default(),
            tls_failures: Counter::default(),
            bytes: Counter::default(),
            log_lines_dropped: Counter::default(),
            handlers_timed_out: Counter::default(),

            methods: std::array::from_fn(|_| Counter::default()),
            refusals: std::array::from_fn(|_| Counter::default()),
            http3: std::array::from_fn(|_| Counter::default()),

            latency: Histogram::default(),
            statuses: std::array::from_fn(|_| Counter::default()),
            missing: Mutex::default(),
            routes: Vec::new(),
        }
    }
}

impl Counters {
    /// Returns counters for a server with these routes.
    pub(crate) fn with_routes<'p>(mut patterns: impl Iterator<Item = &'p str>) -> Counters {
        let route = |pattern: &str| RouteCounters {
            pattern: pattern.to_owned(),
            classes: std::array::from_fn(|_| Counter::default()),
            nanoseconds: Counter::default(),
        };
        let mut routes: Vec<_> = patterns.by_ref().take(COUNTED_ROUTES_MAX).map(route).collect();
        if patterns.next().is_some() {
            routes.push(route("other"));
        }
        Counters { routes, ..Counters::default() }
    }

    /// Counts a response of the route with this number, which took `took` to make.
    pub(crate) fn count_route(&self, number: usize, status: u16, took: Duration) {
        let Some(counters) = self.routes.get(number).or(self.routes.last()) else { return };
        let class = usize::from(status / 100).wrapping_sub(2);
        if let Some(counter) = counters.classes.get(class) {
            counter.add(1);
            counters.nanoseconds.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Counts a response with this status.
    #[inline]
    pub(crate) fn count_status(&self, status: u16) {
        if let Some(counter) = self.statuses.get(usize::from(status).wrapping_sub(100)) {
            counter.add(1);
        }
    }

    /// Returns the count for each status that was sent.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (100..).zip(&self.statuses).map(|(status, counter)| (status, counter.get())).filter(|(_, n)| *n > 0)
    }

    /// Counts a request for a path that does not exist. Note that this takes a lock, albeit with short
    /// critical sections.
    #[cold]
    pub(crate) fn count_missing(&self, target: &[u8]) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).count(target);
    }

    /// Adds the missing paths to `all`.
    pub(super) fn add_missing_to(&self, all: &mut Missing) {
        all.merge(&self.missing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_routes_are_counted_together() {
        for (routes, counted) in [(0_usize, 0), (255, 255), (256, 256), (257, 257), (300, 257)] {
            let patterns: Vec<_> = (0..routes).map(|number| format!("/{number}")).collect();
            let counters = Counters::with_routes(patterns.iter().map(String::as_str));
            assert_eq!(counters.routes.len(), counted, "{routes} routes");
            let Some(last) = routes.checked_sub(1) else { continue };
            counters.count_route(last, 200, Duration::from_micros(1));
            let found = counters.routes.last().unwrap();
            let pattern = if routes > COUNTED_ROUTES_MAX { "other" } else { &patterns[last] };
            assert_eq!((found.pattern.as_str(), found.classes[0].get()), (pattern, 1), "{routes} routes");
        }
    }
}
