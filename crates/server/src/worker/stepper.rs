//! Runs single iterations of a worker, so that we can count their instructions and allocations.
//!
//! The kernel is replaced by an event loop and a socket in memory; everything else is the server's real code.
//! Only tests and benchmarks use this.

#[cfg(test)]
mod allocations;
mod http3;
mod single_client;

use std::rc::Rc;
use std::sync::Arc;

pub use self::http3::Http3Stepper;
use self::single_client::{Client, RESPONSE_START_BYTES, SingleClientLoop};
use super::{Plan, StopFlag, Worker};
use crate::config::{self, AccessLog, Config, ListenerKind};
use crate::content::{Content, Current};
use crate::error::StartError;
use crate::observe::{Counters, LogFile, LogWriter, Observer, Status};
use crate::routes::WorkerRoutes;
use crate::sandbox::Sandbox;

/// A worker with one connection. The client sends requests in every iteration.
pub struct Stepper {
    worker: Worker<SingleClientLoop>,
    client: Rc<Client>,
}

/// Statistics and logging of a worker.
#[derive(Debug, Clone)]
pub struct Instrumentation {
    /// `true` to update the metrics.
    pub metrics: bool,
    /// The access log, if any.
    pub log: Option<AccessLog>,
}

impl Instrumentation {
    /// No metrics and no access log.
    pub const NONE: Instrumentation = Instrumentation { metrics: false, log: None };
}

impl Stepper {
    /// Creates a worker that serves `content` and lets it accept the client.
    ///
    /// # Errors
    /// Returns an error if the content or the access log cannot be opened.
    pub fn new(content: config::Content, instrumentation: Instrumentation) -> Result<Stepper, StartError> {
        Stepper::with_routes(content, instrumentation, |_| Ok(None))
    }

    /// Like [`Stepper::new`], for a worker with these routes.
    fn with_routes(
        content: config::Content,
        instrumentation: Instrumentation,
        routes: impl FnOnce(&Arc<Status>) -> Result<Option<WorkerRoutes>, StartError>,
    ) -> Result<Stepper, StartError> {
        let log = instrumentation.log.as_ref().map(LogFile::open).transpose()?;
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let routes = routes(&status)?;
        let start = |log: LogFile| log.start(1, status, config::NoticeHandler::ignore(), &Sandbox::default());
        let log = log.map(start).transpose()?;
        let counters = instrumentation.metrics.then(|| Arc::new(Counters::default()));
        let observer = Observer::new(counters, log.as_ref().map(LogWriter::buffer));
        let config = Config { access_log: instrumentation.log, ..Config::plain(content) };
        let (content, _leases) = Content::open(&config, None)?;
        let current = Arc::new(Current::new(Arc::new(content)));
        let stop = Arc::new(StopFlag::default());
        let client = Client::new();
        let plan =
            Plan::new(&config, [(ListenerKind::Plain, ())], current, stop, observer).with_routes(routes);
        let worker =
            Worker::new(SingleClientLoop::new(Rc::clone(&client)), plan).map_err(StartError::EventLoop)?;
        let mut stepper = Stepper { worker, client };
        stepper.worker.run_iteration(None);
        Ok(stepper)
    }

    /// Sets the requests that the client will send in every later iteration. They must be complete and fit
    /// into one receive buffer.
    pub fn set_requests(&mut self, requests: &[u8]) {
        self.client.set_requests(vec![requests.to_vec()]);
    }

    /// Sets the requests for each of the next iterations. This is useful for HTTP/2, where requests cannot be
    /// repeated because each of them needs another stream ID.
    ///
    /// Once all iterations have run, the last element is repeated. `requests` must not be empty.
    pub fn set_request_sequence(&mut self, requests: Vec<Vec<u8>>) {
        self.client.set_requests(requests);
    }

    /// Runs one iteration with the client's next requests. Returns the length of the responses in bytes.
    pub fn step(&mut self) -> usize {
        self.client.send_requests();
        self.worker.run_iteration(None);
        self.client.received_bytes()
    }

    /// Returns the first bytes that were sent in the last iteration, which are the version and the status code.
    #[must_use]
    pub fn response_start(&self) -> [u8; RESPONSE_START_BYTES] {
        self.client.response_start()
    }
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("client", &self.client).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn panic_closes_the_connection_not_the_worker() {
        let mut stepper = Stepper::new(config::Content::dummy(b"here"), Instrumentation::NONE).unwrap();
        stepper.set_requests(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(stepper.step() > 0);
        assert!(!stepper.worker.is_idle());
        stepper.client.panic_on_receive();
        stepper.client.send_requests();
        stepper.worker.run_guarded_iteration(None);
        assert!(stepper.worker.is_idle());
        stepper.worker.run_guarded_iteration(None);
    }

    /// Not even the connection that ran last is to blame, and the worker would only panic again.
    #[test]
    fn panic_outside_a_connection_is_not_caught() {
        let mut stepper = Stepper::new(config::Content::dummy(b"here"), Instrumentation::NONE).unwrap();
        stepper.set_requests(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(stepper.step() > 0);
        stepper.client.panic_on_wait();
        let guarded = AssertUnwindSafe(|| stepper.worker.run_guarded_iteration(None));
        assert!(catch_unwind(guarded).is_err());
        assert!(!stepper.worker.is_idle());
    }

    /// Draining would spin because waiting fails at once.
    #[test]
    fn worker_that_cannot_wait_ends() {
        let mut stepper = Stepper::new(config::Content::dummy(b"here"), Instrumentation::NONE).unwrap();
        stepper.set_requests(b"GET / HTTP/1.1\r\n");
        assert_eq!(stepper.step(), 0);
        assert!(!stepper.worker.is_idle());
        stepper.client.fail_waiting();
        let stop = Arc::clone(&stepper.worker.stop);
        stepper.worker.run();
        assert_eq!(stepper.client.bad_waits(), 1);
        assert!(stop.is_set(), "the other workers are to end as well");
    }
}
