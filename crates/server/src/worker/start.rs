//! The thread of a worker: started, with a table of descriptors and a cage of its own, and all of them or none.
//!
//! Never serves: that begins when every thread has told how its start went.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::JoinHandle;

use cannery_eventloop::{Balancer, EventLoop, Listener, Waker};

use super::backend::{Backend, LoopTask};
use super::{Plan, Worker};
use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};

/// Starts a thread for each plan, on such a loop, and waits until all of them serve.
pub(crate) fn start_all(
    name: &str,
    io: Backend,
    plans: Vec<(Plan, Waker)>,
    sandbox: &Sandbox,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let (started, starts) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, (plan, waker)) in plans.into_iter().enumerate() {
        let (started, sandbox) = (started.clone(), sandbox.clone());
        let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
        let thread = thread.spawn(move || run(io, plan, waker, &sandbox, started));
        threads.push(thread.map_err(StartError::Thread)?);
    }
    drop(started);
    let all_started: Result<Vec<()>, StartError> = starts.into_iter().collect();
    all_started.map(|_| threads)
}

/// The task of a worker's thread. Tells how its start went, and serves if it went well.
fn run(
    io: Backend,
    mut plan: Plan,
    waker: Waker,
    sandbox: &Sandbox,
    started: mpsc::Sender<Result<(), StartError>>,
) {
    let balancer = plan.balancer.take();
    if plan.owns_descriptors {
        // Only a matter of speed: where a sandbox forbids it, the shared table serves.
        let balancer_descriptors = balancer.iter().flat_map(Balancer::descriptors);
        let of_others = plan.standby.iter().map(|standby| standby.listener.as_fd());
        let own = plan.listeners.iter().map(AsFd::as_fd);
        let kept = own.chain(of_others).chain([waker.as_fd()]).chain(balancer_descriptors);
        let _ = cannery_eventloop::unshare_descriptor_table(kept);
    }
    io.make(waker, balancer, Life { plan, sandbox, started });
}

/// What a thread needs besides a loop.
struct Life<'a> {
    plan: Plan,
    sandbox: &'a Sandbox,
    /// The main thread waits until every sender is gone.
    started: mpsc::Sender<Result<(), StartError>>,
}

impl LoopTask for Life<'_> {
    /// Serves on a loop that was just made, if it was. From then on the thread can do nothing else.
    fn run<L: EventLoop<Listener = Listener>>(self, events: io::Result<L>) {
        let Life { plan, sandbox, started } = self;
        let worker = events.and_then(|events| Worker::new(events, plan)).map_err(StartError::EventLoop);
        let worker = worker.and_then(|worker| {
            worker.note_thread();
            sandbox.enter_thread(ThreadRole::Worker)?;
            Ok(worker)
        });
        let (word, worker) = match worker {
            Ok(worker) => (Ok(()), Some(worker)),
            Err(error) => (Err(error), None),
        };
        // The main thread waits for this word: it is there to take it.
        let _ = started.send(word);
        drop(started);
        if let Some(worker) = worker {
            worker.run();
        }
    }
}
