//! Watchdog of handlers: notices those that don't return.
//!
//! A thread that runs a handler stores which one in a number, which costs a handler two stores and other requests nothing. A thread
//! that serves no connections compares the numbers from time to time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cannery_routes::Routes;

use super::body_threads::{BodyThreads, Stopped};
use super::limits::WORKER_HANDLER_MAX;
use crate::notice::Notice;
use crate::observe::Status;

/// The handler that a thread runs: the number of the call in the upper bits and one more than the number of the route in the lower
/// ones, or 0 while no handler runs.
type Call = AtomicU64;

/// Bits of a [`Call`] for the route.
const ROUTE_BITS: u32 = 24;

/// A thread that runs handlers.
#[derive(Debug, Default)]
pub(super) struct WatchedThread {
    call: Arc<Call>,
    /// The number of calls so far.
    calls: Cell<u64>,
}

impl WatchedThread {
    /// Runs the handler of the route with this number.
    pub(super) fn run<R>(&self, route: usize, handler: impl FnOnce() -> R) -> R {
        self.calls.set(self.calls.get().wrapping_add(1));
        let route = (route as u64 + 1) & ((1 << ROUTE_BITS) - 1);
        self.call.store(self.calls.get() << ROUTE_BITS | route, Ordering::Relaxed);
        let made = handler();
        self.call.store(0, Ordering::Relaxed);
        made
    }

    /// Returns what [`Watchdog::watch_worker`] needs.
    pub(super) fn call(&self) -> Arc<Call> {
        Arc::clone(&self.call)
    }
}

/// The kind of a thread that runs handlers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// It serves connections, which wait meanwhile.
    Worker,
    Pool,
}

/// Notices handlers that don't return.
#[derive(Debug)]
pub(crate) struct Watchdog {
    routes: Arc<Routes>,
    status: Arc<Status>,
    threads: Vec<Observed>,
    /// The number of threads of the pool.
    pool_threads: usize,
    /// How long a handler may keep a thread of the pool.
    pool_limit: Duration,
    /// The bodies that are written while they are sent.
    bodies: BodyThreads,
}

/// A thread, as the last check has found it.
#[derive(Debug)]
struct Observed {
    call: Arc<Call>,
    kind: Kind,
    last: u64,
    /// When the last call was seen first.
    since: Instant,
    is_reported: bool,
}

impl Watchdog {
    /// Watches the threads of a pool, on which a handler should respond within `pool_limit`.
    pub(super) fn new(
        routes: Arc<Routes>,
        status: Arc<Status>,
        pool: &[Arc<Call>],
        pool_limit: Duration,
    ) -> Watchdog {
        let mut watchdog = Watchdog {
            routes,
            status,
            threads: Vec::new(),
            pool_threads: pool.len(),
            pool_limit,
            bodies: BodyThreads::default(),
        };
        for call in pool {
            watchdog.add(Kind::Pool, Arc::clone(call));
        }
        watchdog
    }

    /// Also ends bodies that occupy a thread for long while others wait.
    pub(super) fn with_bodies(mut self, bodies: BodyThreads) -> Watchdog {
        self.bodies = bodies;
        self
    }

    /// Also watches a thread that serves connections.
    pub(super) fn watch_worker(&mut self, thread: &WatchedThread) {
        self.add(Kind::Worker, thread.call());
    }

    fn add(&mut self, kind: Kind, call: Arc<Call>) {
        self.threads.push(Observed { call, kind, last: 0, since: Instant::now(), is_reported: false });
    }

    /// Returns a notice for each handler that has run for too long, once, and for bodies that were ended.
    pub(crate) fn check(&mut self, now: Instant) -> Vec<Notice> {
        let mut notices = Vec::new();
        for thread in &mut self.threads {
            let limit = match thread.kind {
                Kind::Worker => WORKER_HANDLER_MAX,
                Kind::Pool => self.pool_limit,
            };
            let Some((route, after)) = thread.is_late(limit, now) else { continue };
            let route = self.routes.pattern(route).unwrap_or_default().to_owned();
            notices.push(match thread.kind {
                Kind::Worker => Notice::HandlerHoldsWorker { route, after },
                Kind::Pool => Notice::HandlerLate {
                    route,
                    after,
                    occupied: self.status.pool_threads.handlers.get(),
                    threads: self.pool_threads,
                },
            });
        }
        if let Some(Stopped { bodies, after }) = self.bodies.make_room(now) {
            notices.push(Notice::BodiesEnded { bodies, after, threads: self.pool_threads });
        }
        notices
    }
}

impl Observed {
    /// Returns the number of the route and the time that its handler has run, if that is more than `limit` and wasn't reported.
    fn is_late(&mut self, limit: Duration, now: Instant) -> Option<(usize, Duration)> {
        let call = self.call.load(Ordering::Relaxed);
        if call != self.last {
            self.last = call;
            self.since = now;
            self.is_reported = false;
        }
        let after = now.saturating_duration_since(self.since);
        if call == 0 || self.is_reported || after < limit {
            return None;
        }
        self.is_reported = true;
        let route = (call & ((1 << ROUTE_BITS) - 1)) - 1;
        Some((usize::try_from(route).ok()?, after))
    }
}

#[cfg(test)]
mod tests {
    use cannery_routes::{HandlerThread, Request, Route};

    use super::*;

    fn watchdog(thread: &WatchedThread) -> Watchdog {
        let mut routes = Routes::default();
        for pattern in ["GET /a", "GET /b"] {
            let handler = |_: &Request<'_>| "";
            routes.add(pattern, Route::new(handler, HandlerThread::Worker, 0)).unwrap();
        }
        let status = Arc::new(Status::new(std::iter::empty()));
        let mut watchdog = Watchdog::new(Arc::new(routes), status, &[], Duration::ZERO);
        watchdog.watch_worker(thread);
        watchdog
    }

    #[test]
    fn late_handler_is_reported_once() {
        let thread = WatchedThread::default();
        let mut watchdog = watchdog(&thread);
        let start = Instant::now();
        let mut texts = |after: Duration| -> Vec<String> {
            watchdog.check(start + after).iter().map(ToString::to_string).collect()
        };
        assert!(texts(Duration::ZERO).is_empty());
        thread.run(1, || {
            assert!(texts(Duration::from_secs(1)).is_empty());
            assert!(texts(Duration::from_millis(1900)).is_empty());
            let notices = texts(Duration::from_secs(2));
            assert!(notices.len() == 1 && notices[0].starts_with("GET /b: "), "{notices:?}");
            assert!(texts(Duration::from_secs(9)).is_empty());
        });
        assert!(texts(Duration::from_secs(10)).is_empty());
    }

    #[test]
    fn calls_one_after_the_other_are_not_late() {
        let thread = WatchedThread::default();
        let mut watchdog = watchdog(&thread);
        let start = Instant::now();
        for second in 0..5 {
            thread.run(0, || assert!(watchdog.check(start + Duration::from_secs(second)).is_empty()));
        }
    }
}
