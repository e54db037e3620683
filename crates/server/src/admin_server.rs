//! The listener for operators: a worker of its own, on the same engine.

use std::sync::Arc;
use std::thread::JoinHandle;

use cannery_eventloop::{Address, Claim, Listener, Waker};

use crate::admin::Admin;
use crate::cage::Cage;
use crate::config::Config;
use crate::content::Content;
use crate::current::Current;
use crate::error::StartError;
use crate::metrics::Counters;
use crate::observer::Observer;
use crate::status::Status;
use crate::worker::{self, StopOrder};

/// An address that is listened at, where nobody answers yet.
#[derive(Debug)]
pub(crate) struct AdminListener {
    claim: Claim,
    listener: Listener,
    waker: Waker,
}

impl AdminListener {
    /// Listens at an address.
    pub(crate) fn open(address: &Address) -> Result<AdminListener, StartError> {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        let claim = Claim::new(address).map_err(failed)?;
        let listener = claim.listen().map_err(failed)?;
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(AdminListener { claim, listener, waker })
    }

    /// What keeps the address.
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Starts to answer. What is told comes from these workers.
    pub(crate) fn start(
        self,
        config: &Config,
        workers: &[Arc<Counters>],
        status: &Arc<Status>,
        cage: &Cage,
    ) -> Result<AdminServer, StartError> {
        let AdminListener { claim, listener, waker } = self;
        let admin = Admin { workers: workers.to_vec(), status: Arc::clone(status) };
        let current = Arc::new(Current::new(Arc::new(Content::Admin(admin))));
        let (order, observer) = (Arc::new(StopOrder::default()), Observer::default());
        let plan = worker::Plan::new(config, vec![listener], current, Arc::clone(&order), observer);
        let threads = worker::start_all("admin", vec![(plan.asked_directly(), waker.clone())], cage)?;
        Ok(AdminServer { claim, threads, order, waker })
    }
}

/// A running listener for operators.
#[derive(Debug)]
pub(crate) struct AdminServer {
    claim: Claim,
    threads: Vec<JoinHandle<()>>,
    order: Arc<StopOrder>,
    waker: Waker,
}

impl AdminServer {
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
