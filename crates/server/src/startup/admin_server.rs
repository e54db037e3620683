//! The admin listener, which has its own worker.

use std::sync::Arc;
use std::thread::JoinHandle;

use cannery_eventloop::{Address, Claim, Listener, Waker};

use crate::config::{Config, ListenerKind};
use crate::content::{Content, Current};
use crate::error::StartError;
use crate::observe::Observer;
use crate::pages::admin::Admin;
use crate::sandbox::Sandbox;
use crate::worker::{self, Backend, StopFlag};

/// A bound admin listener that is not served yet.
#[derive(Debug)]
pub(super) struct AdminListener {
    address: Address,
    /// Reserves the address. `None` if the listener is inherited.
    claim: Option<Claim>,
    listener: Listener,
    waker: Waker,
}

impl AdminListener {
    /// Binds an address.
    ///
    /// # Errors
    /// Returns an error if the address is not available.
    pub(super) fn open(address: &Address) -> Result<AdminListener, StartError> {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        let claim = Claim::new(address).map_err(failed)?;
        let listener = claim.listen().map_err(failed)?;
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(AdminListener { address: claim.address(), claim: Some(claim), listener, waker })
    }

    /// Uses an inherited listener.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not a listening socket.
    pub(super) fn inherit(descriptor: i32) -> Result<AdminListener, StartError> {
        let failed = |source| StartError::Inherited { descriptor, source };
        let listener = Listener::inherit(descriptor).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(AdminListener { address, claim: None, listener, waker })
    }

    pub(super) fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Starts the worker.
    pub(super) fn start(
        self,
        config: &Config,
        admin: Admin,
        sandbox: &Sandbox,
    ) -> Result<AdminServer, StartError> {
        let AdminListener { address, claim, listener, waker } = self;
        let collects_stats = admin.collects_stats();
        let current = Arc::new(Current::new(Arc::new(Content::Admin(admin))));
        let stop = Arc::new(StopFlag::default());
        let plan = worker::Plan::new(
            config,
            [(ListenerKind::Plain, listener)],
            current,
            Arc::clone(&stop),
            Observer::default(),
        );
        let plan = plan.for_admin(collects_stats);
        let threads = worker::start_all("admin", Backend::DEFAULT, vec![(plan, waker.clone())], sandbox)?;
        Ok(AdminServer { address, _claim: claim, threads, stop, waker })
    }
}

/// A running admin listener.
#[derive(Debug)]
pub(super) struct AdminServer {
    address: Address,
    /// Removes the path of a Unix socket when it is dropped.
    _claim: Option<Claim>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<StopFlag>,
    waker: Waker,
}

impl AdminServer {
    pub(super) fn address(&self) -> Address {
        self.address.clone()
    }

    /// Returns the flag that stops it, and the waker of the worker.
    pub(super) fn stop_flag(&self) -> (Arc<StopFlag>, Waker) {
        (Arc::clone(&self.stop), self.waker.clone())
    }

    /// Stops it and waits until it has stopped.
    pub(super) fn stop(self) {
        self.order_stop();
        self.wait();
    }

    fn order_stop(&self) {
        self.stop.set();
        self.waker.wake();
    }

    /// Waits until it has stopped.
    pub(super) fn wait(mut self) {
        for thread in self.threads.drain(..) {
            // The panic handler has reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.order_stop();
    }
}
