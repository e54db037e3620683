//! The listener for operators: a worker of its own, on the same engine.

use std::sync::Arc;
use std::thread::JoinHandle;

use cannery_eventloop::{Address, Claim, Waker};

use crate::admin::Admin;
use crate::config::Config;
use crate::content::Content;
use crate::current::Current;
use crate::error::StartError;
use crate::metrics::Counters;
use crate::observer::Observer;
use crate::status::Status;
use crate::worker::{self, StopOrder};

/// A running listener for operators.
#[derive(Debug)]
pub(crate) struct AdminServer {
    claim: Claim,
    threads: Vec<JoinHandle<()>>,
    order: Arc<StopOrder>,
    waker: Waker,
}

impl AdminServer {
    /// Listens at an address. What is told comes from these workers.
    pub(crate) fn start(
        config: &Config,
        address: &Address,
        workers: &[Arc<Counters>],
        status: &Arc<Status>,
    ) -> Result<AdminServer, StartError> {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        let claim = Claim::new(address).map_err(failed)?;
        let listener = claim.listen().map_err(failed)?;
        let admin = Admin { workers: workers.to_vec(), status: Arc::clone(status) };
        let current = Arc::new(Current::new(Arc::new(Content::Admin(admin))));
        let (order, waker) = (Arc::new(StopOrder::default()), Waker::new().map_err(StartError::EventLoop)?);
        let observer = Observer::default();
        let plan = worker::Plan::new(config, vec![listener], current, Arc::clone(&order), observer);
        let threads = worker::start_all("admin", vec![(plan, waker.clone())])?;
        Ok(AdminServer { claim, threads, order, waker })
    }

    pub(crate) fn address(&self) -> Address {
        self.claim.address()
    }

    /// Stops, and waits until it has.
    pub(crate) fn stop(self) {
        self.order.give();
        self.waker.wake();
        for thread in self.threads {
            // One that panicked has said so on its way out.
            let _ = thread.join();
        }
    }
}
