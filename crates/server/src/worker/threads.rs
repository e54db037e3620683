//! Starts worker threads. Each of them gets its own descriptor table and sandbox.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::JoinHandle;

use cannery_eventloop::{Balancer, EventLoop, Listener, UdpSocket, Waker};

use super::backend::{Backend, LoopTask};
use super::{Plan, Worker};
use crate::error::StartError;
use crate::http3::Http3Plan;
use crate::sandbox::{Sandbox, ThreadRole};

/// Starts a thread for each plan. Returns once all of them are serving.
///
/// # Errors
/// Returns an error if a thread cannot be started or cannot watch its listeners. Callers should then order the
/// others to stop.
pub(crate) fn start_all(
    name: &str,
    io: Backend,
    plans: Vec<(Plan, Waker)>,
    sandbox: &Sandbox,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let (started, starts) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, (plan, waker)) in plans.into_iter().enumerate() {
        let started = started.clone();
        let sandbox = sandbox.clone();
        let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
        let thread = thread.spawn(move || run_thread(io, plan, waker, &sandbox, started));
        threads.push(thread.map_err(StartError::Thread)?);
    }

    // Drop our own sender, so that the iteration ends once every thread has reported.
    drop(started);
    let all_started: Result<Vec<()>, StartError> = starts.into_iter().collect();
    all_started.map(|_| threads)
}

/// Main function of a worker thread. It tells `started` whether the worker is ready, and serves if
/// so.
fn run_thread(
    io: Backend,
    mut plan: Plan,
    waker: Waker,
    sandbox: &Sandbox,
    started: mpsc::Sender<Result<(), StartError>>,
) {
    let balancer = plan.balancer.take();
    if plan.owns_descriptors {
        let balancer_descriptors = balancer.iter().flat_map(Balancer::descriptors);
        let standby = plan.standby.iter().map(|standby| standby.listener.as_fd());
        let own = plan.listeners.iter().map(|(_, listener)| listener.as_fd());
        let datagrams = plan.http3.iter().flat_map(Http3Plan::sockets).map(UdpSocket::as_fd);
        let kept = own.chain(standby).chain(datagrams).chain([waker.as_fd()]).chain(balancer_descriptors);

        // This only makes system calls faster. If a sandbox does not allow it, use the shared table.
        let _ = cannery_eventloop::unshare_descriptor_table(kept);
    }
    // This only makes responses faster on a busy machine. If a sandbox does not allow it, keep the usual slices.
    let _ = cannery_eventloop::prefer_short_slices();
    io.make(waker, balancer, Task { plan, sandbox, started });
}

/// Runs the worker on its event loop.
struct Task<'a> {
    plan: Plan,
    sandbox: &'a Sandbox,
    /// The main thread waits until all senders have been dropped.
    started: mpsc::Sender<Result<(), StartError>>,
}

impl LoopTask for Task<'_> {
    /// Enters the sandbox and serves.
    fn run<L: EventLoop<Listener = Listener, Datagrams = UdpSocket>>(self, events: io::Result<L>) {
        let Task { plan, sandbox, started } = self;
        let worker = events.and_then(|events| Worker::new(events, plan)).map_err(StartError::EventLoop);
        let worker = worker.and_then(|worker| {
            worker.report_thread();
            sandbox.enter_thread(ThreadRole::Worker)?;
            Ok(worker)
        });
        let (outcome, worker) = match worker {
            Ok(worker) => (Ok(()), Some(worker)),
            Err(error) => (Err(error), None),
        };

        // The main thread is waiting for this, so it cannot fail.
        let _ = started.send(outcome);
        drop(started);
        if let Some(worker) = worker {
            worker.run();
        }
    }
}
