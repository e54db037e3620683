//! The listener for operators: a worker of its own, on the same engine.

use std::sync::Arc;
use std::thread::JoinHandle;

use cannery_eventloop::{Address, Claim, Listener, Waker};

use crate::admin::Admin;
use crate::config::{Config, ListenerKind};
use crate::content::Content;
use crate::error::StartError;
use crate::observe::Observer;
use crate::reload::Current;
use crate::sandbox::Sandbox;
use crate::worker::{self, Backend, StopOrder};

/// An address that is listened at, where nobody answers yet.
#[derive(Debug)]
pub(super) struct AdminListener {
    address: Address,
    /// What keeps the address; nothing where whoever started this process keeps it.
    claim: Option<Claim>,
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
        Ok(AdminListener { address: claim.address(), claim: Some(claim), listener, waker })
    }

    /// Listens with the socket of this number, which whoever started this process has left open for it.
    pub(crate) fn inherit(descriptor: i32) -> Result<AdminListener, StartError> {
        let failed = |source| StartError::Inherited { descriptor, source };
        let listener = Listener::inherit(descriptor).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(AdminListener { address, claim: None, listener, waker })
    }

    /// What keeps the address.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Starts to answer.
    pub(crate) fn start(
        self,
        config: &Config,
        admin: Admin,
        sandbox: &Sandbox,
    ) -> Result<AdminServer, StartError> {
        let AdminListener { address, claim, listener, waker } = self;
        let asks_others = admin.asks_others();
        let current = Arc::new(Current::new(Arc::new(Content::Admin(admin))));
        let (order, observer) = (Arc::new(StopOrder::default()), Observer::default());
        let plan = worker::Plan::new(
            config,
            [(ListenerKind::Plain, listener)],
            current,
            Arc::clone(&order),
            observer,
        );
        let plan = plan.for_operators(asks_others);
        let threads = worker::start_all("admin", Backend::DEFAULT, vec![(plan, waker.clone())], sandbox)?;
        Ok(AdminServer { address, _claim: claim, threads, order, waker })
    }
}

/// A running listener for operators.
#[derive(Debug)]
pub(crate) struct AdminServer {
    address: Address,
    /// Removes the path of a local socket at the end.
    _claim: Option<Claim>,
    threads: Vec<JoinHandle<()>>,
    order: Arc<StopOrder>,
    waker: Waker,
}

impl AdminServer {
    pub(crate) fn address(&self) -> Address {
        self.address.clone()
    }

    /// What orders it to stop.
    pub(super) fn stop_order(&self) -> (Arc<StopOrder>, Waker) {
        (Arc::clone(&self.order), self.waker.clone())
    }

    /// Stops, and waits until it has.
    pub(crate) fn stop(self) {
        self.order.give();
        self.waker.wake();
        self.wait();
    }

    /// Waits until it has stopped.
    pub(crate) fn wait(self) {
        for thread in self.threads {
            // One that panicked has said so on its way out.
            let _ = thread.join();
        }
    }
}
