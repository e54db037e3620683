//! A watchdog that looks for handlers which do not return.
//!
//! Each thread stores a number for the handler that it is running. This costs two stores per handler call,
//! and nothing at all for other requests. From time to time, a thread that does not serve any connections
//! will compare these numbers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cannery_routes::Routes;

use super::body_threads::{BodyThreads, LateHandler, Stopped};
use super::limits::{BODY_OCCUPIES_MAX, WORKER_HANDLER_MAX};
use crate::notice::Notice;
use crate::observe::Status;

/// The handler that a thread is currently running (or 0). The upper bits are the number of the call, while
/// the lower bits are the number of the route plus 1.
type Call = AtomicU64;

/// Bits of a [`Call`] that are for the route.
const ROUTE_BITS: u32 = 24;

/// In a [`Call`], stands for middleware that runs without a handler.
const NO_ROUTE: u64 = (1 << ROUTE_BITS) - 1;

/// A thread that runs handlers.
#[derive(Debug, Default)]
pub(super) struct WatchedThread {
    call: Arc<Call>,
    /// Calls so far.
    calls: Cell<u64>,
}

impl WatchedThread {
    /// Returns a thread that stores its number here.
    pub(super) fn of(call: Arc<Call>) -> WatchedThread {
        WatchedThread { call, calls: Cell::default() }
    }

    /// Runs a handler of the route with this number, or middleware for a path without a handler.
    pub(super) fn run<R>(&self, route: Option<usize>, handler: impl FnOnce() -> R) -> R {
        self.calls.set(self.calls.get().wrapping_add(1));
        let route = route.map_or(NO_ROUTE, |route| (route as u64 + 1).min(NO_ROUTE));
        self.call.store(self.calls.get() << ROUTE_BITS | route, Ordering::Relaxed);
        let made = handler();
        self.call.store(0, Ordering::Relaxed);
        made
    }

    /// Returns the number that the watchdog looks at.
    pub(super) fn call(&self) -> Arc<Call> {
        Arc::clone(&self.call)
    }
}

/// The other work of a thread that runs handlers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// It serves connections, and these have to wait for the handler.
    Worker,
    Pool,
}

/// Looks for handlers that do not return.
#[derive(Debug)]
pub(crate) struct Watchdog {
    routes: Arc<Routes>,
    status: Arc<Status>,
    threads: Vec<Observed>,
    /// Number of threads in the pool.
    pool_threads: usize,
    /// Time for which a handler may keep a thread of the pool.
    pool_limit: Duration,
    /// Bodies that are being written and sent at the same time.
    bodies: BodyThreads,
    /// Uploads that are being read.
    uploads: BodyThreads,
    /// Number of threads for bodies, and of threads for uploads.
    body_threads: usize,
}

/// A thread, as the last check found it.
#[derive(Debug)]
struct Observed {
    call: Arc<Call>,
    kind: Kind,
    last: u64,
    /// When the last call was first seen.
    since: Instant,
    is_reported: bool,
}

impl Watchdog {
    /// Watches the threads of a pool. Handlers should return within `pool_limit`.
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
            uploads: BodyThreads::default(),
            body_threads: 0,
        };
        for call in pool {
            watchdog.add(Kind::Pool, Arc::clone(call));
        }
        watchdog
    }

    /// Also stops bodies and uploads that occupy a thread for too long while others are waiting.
    pub(super) fn with_bodies(
        self,
        bodies: BodyThreads,
        uploads: BodyThreads,
        body_threads: usize,
    ) -> Watchdog {
        Watchdog { bodies, uploads, body_threads, ..self }
    }

    /// Also watches a thread that serves connections.
    pub(super) fn watch_worker(&mut self, thread: &WatchedThread) {
        self.add(Kind::Worker, thread.call());
    }

    fn add(&mut self, kind: Kind, call: Arc<Call>) {
        self.threads.push(Observed { call, kind, last: 0, since: Instant::now(), is_reported: false });
    }

    /// Reports each handler that has been running for too long, but only once. If bodies had to be stopped,
    /// this is also reported.
    pub(crate) fn check(&mut self, now: Instant) -> Vec<Notice> {
        let mut notices = Vec::new();

        for thread in &mut self.threads {
            let limit = match thread.kind {
                Kind::Worker => WORKER_HANDLER_MAX,
                Kind::Pool => self.pool_limit,
            };
            let Some((route, after)) = thread.is_late(limit, now) else { continue };

            let route = pattern(&self.routes, route);
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
            notices.push(Notice::BodiesEnded { bodies, after, threads: self.body_threads });
        }
        if let Some(Stopped { bodies: uploads, after }) = self.uploads.make_room(now) {
            notices.push(Notice::UploadsEnded { uploads, after, threads: self.body_threads });
        }
        // Handlers may clean up after their client has gone, but not for longer than an upload may occupy its thread.
        let unwanted_max = self.pool_limit.min(BODY_OCCUPIES_MAX);
        for LateHandler { call, after } in self.uploads.late_handlers(now, unwanted_max) {
            let Some(route) = route_of(call) else { continue };
            notices.push(Notice::UploadLate {
                route: pattern(&self.routes, route),
                after,
                occupied: self.status.pool_threads.uploads.get(),
                threads: self.body_threads,
            });
        }
        notices
    }
}

impl Observed {
    /// Checks if the handler has been running for more than `limit`. If so, the route number and the time
    /// are returned, but only once per call.
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
        Some((route_of(call)?, after))
    }
}

/// Returns the number of a call's route.
fn route_of(call: u64) -> Option<usize> {
    let route = (call & ((1 << ROUTE_BITS) - 1)).checked_sub(1)?;
    usize::try_from(route).ok()
}

fn pattern(routes: &Routes, route: usize) -> String {
    routes.pattern(route).unwrap_or("requests without a route").to_owned()
}

#[cfg(test)]
mod tests {
    use cannery_routes::{Group, Request, content_channel};

    use super::*;

    fn watchdog(thread: &WatchedThread) -> Watchdog {
        let handler = |_: &Request<'_>| "";
        let group = Group::default().route("GET /a", handler).route("GET /b", handler);
        let routes = Routes::new(&group, 0).unwrap();
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
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
        thread.run(Some(1), || {
            assert!(texts(Duration::from_secs(1)).is_empty());
            assert!(texts(Duration::from_millis(1900)).is_empty());
            let notices = texts(Duration::from_secs(2));
            assert!(notices.len() == 1 && notices[0].starts_with("GET /b: "), "{notices:?}");
            assert!(texts(Duration::from_secs(9)).is_empty());
        });
        assert!(texts(Duration::from_secs(10)).is_empty());
    }

    #[test]
    fn handler_that_does_not_return_after_its_upload_is_reported_once() {
        let thread = WatchedThread::default();
        let uploads = BodyThreads::default();
        let mut watchdog =
            watchdog(&WatchedThread::default()).with_bodies(BodyThreads::default(), uploads.clone(), 8);
        watchdog.pool_limit = Duration::from_secs(10);
        let start = Instant::now();
        let mut texts = |seconds| -> Vec<String> {
            let notices = watchdog.check(start + Duration::from_secs(seconds));
            notices.iter().map(ToString::to_string).collect()
        };
        let occupy = |is_wanted: &Arc<()>| {
            assert!(uploads.enter(start, Arc::downgrade(is_wanted)));
            let (_, content) = content_channel();
            uploads.occupy_upload(start, content.stopper(), thread.call(), Arc::downgrade(is_wanted))
        };
        let is_report = |texts: &[String], start: &str| texts.len() == 1 && texts[0].starts_with(start);

        // Another upload waits for the thread.
        let is_wanted = Arc::new(());
        let number = occupy(&is_wanted);
        thread.run(Some(1), || {
            assert!(texts(100).is_empty(), "it may take its time");
            assert!(uploads.enter(start + Duration::from_secs(100), Arc::downgrade(&is_wanted)));
            assert!(is_report(&texts(100), "1 upload was cut off after 100.0 s"));
            assert!(texts(101).is_empty());
            assert!(is_report(&texts(102), "GET /b: this handler has not returned 2.0 s after"));
            assert!(texts(103).is_empty());
        });
        assert!(texts(104).is_empty());
        uploads.vacate(number);
        uploads.leave(&Arc::downgrade(&is_wanted));

        // No client waits for the response.
        let number = occupy(&is_wanted);
        drop(is_wanted);
        thread.run(Some(0), || {
            assert!(texts(200).is_empty());
            assert!(texts(209).is_empty());
            assert!(is_report(&texts(210), "GET /a: this handler has not returned 10.0 s after"));
            assert!(texts(300).is_empty());
        });
        uploads.vacate(number);
    }

    #[test]
    fn calls_one_after_the_other_are_not_late() {
        let thread = WatchedThread::default();
        let mut watchdog = watchdog(&thread);
        let start = Instant::now();
        for second in 0..5 {
            thread.run(Some(0), || assert!(watchdog.check(start + Duration::from_secs(second)).is_empty()));
        }
    }
}
