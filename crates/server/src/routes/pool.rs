//! Threads for handlers that wait: for a database, a file, another server.
//!
//! The number of requests that wait for a thread is bounded, and so is their content. A handler that never returns occupies its
//! thread, and no other one. Bodies have a pool of their own, because a client that receives slowly occupies a thread of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use cannery_routes::{BodyWriter, Producer, Routes};
use cannery_wire::StoredRequest;

use super::body_threads::BodyThreads;
use super::limits::HANDLERS_WAITING_MAX;
use super::watch::{Watchdog, WatchedThread};
use super::{ConnectionAddress, DeliveryContent, HandledRequest, Mailbox, RouteClient, Ticket, answer};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{OccupiedThreads, Status, ThreadCount};

/// The pools of a server.
#[derive(Clone)]
pub(crate) struct Pools {
    /// Runs handlers.
    pub(super) handlers: Pool,
    /// Writes bodies.
    pub(super) producers: Pool,
    /// The bodies of these.
    bodies: BodyThreads,
}

impl Pools {
    /// Starts the threads, which count themselves in `status` while they work. They end when no worker is left. The content of
    /// all requests for them has at most `content_bytes_max` bytes, or is that of a single one.
    ///
    /// Also returns the watchdog of handlers, which should respond within `limit`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        threads: usize,
        content_bytes_max: usize,
        routes: &Arc<Routes>,
        limit: Duration,
        status: &Arc<Status>,
    ) -> Result<(Pools, Watchdog), StartError> {
        let start = |name, count: fn(&OccupiedThreads) -> &ThreadCount| {
            Pool::start(name, threads, content_bytes_max, status, count)
        };
        let (handlers, calls) = start("handler", |occupied| &occupied.handlers)?;
        let (producers, _) = start("body", |occupied| &occupied.bodies)?;
        let bodies = BodyThreads::default();
        let watchdog =
            Watchdog::new(Arc::clone(routes), Arc::clone(status), &calls, limit).with_bodies(bodies.clone());
        Ok((Pools { handlers, producers, bodies }, watchdog))
    }

    /// Has a thread write a body. Returns `false` if too many wait for one, or have waited for too long.
    pub(super) fn produce(&self, produce: Producer, writer: BodyWriter, notices: Sender<Notice>) -> bool {
        if !self.bodies.enter(Instant::now()) {
            return false;
        }
        let job = Job::Produce { produce, writer, bodies: self.bodies.clone(), notices };
        let submitted = self.producers.submit(job).is_ok();
        if !submitted {
            self.bodies.leave();
        }
        submitted
    }
}

/// Hands jobs to the threads of a pool.
#[derive(Clone)]
pub(super) struct Pool {
    jobs: SyncSender<Job>,
    /// The content of all requests that wait or run, in bytes.
    content_bytes: Arc<AtomicUsize>,
    content_bytes_max: usize,
}

/// Work for a thread of the pool.
pub(super) enum Job {
    /// Makes the response to a request.
    Answer {
        routes: Arc<Routes>,
        request: StoredRequest,
        client: RouteClient,
        address: ConnectionAddress,
        ticket: Ticket,
        /// Can be upgraded as long as the connection expects the response.
        is_wanted: Weak<()>,
        mailbox: Mailbox,
        notices: Sender<Notice>,
    },
    /// Writes the body of a response.
    Produce { produce: Producer, writer: BodyWriter, bodies: BodyThreads, notices: Sender<Notice> },
}

impl Pool {
    fn start(
        name: &str,
        threads: usize,
        content_bytes_max: usize,
        status: &Arc<Status>,
        count: fn(&OccupiedThreads) -> &ThreadCount,
    ) -> Result<(Pool, Vec<Arc<AtomicU64>>), StartError> {
        let content_bytes = Arc::new(AtomicUsize::new(0));
        let (jobs, waiting) = sync_channel(HANDLERS_WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut calls = Vec::new();
        for number in 0..threads {
            let waiting = Arc::clone(&waiting);
            let content_bytes = Arc::clone(&content_bytes);
            let status = Arc::clone(status);
            let watched = WatchedThread::default();
            calls.push(watched.call());
            // No sandbox: handlers may do anything that the program may.
            let thread = Builder::new().name(format!("{name}-{number}"));
            let run = move || run(&waiting, &content_bytes, count(&status.pool_threads), &watched);
            thread.spawn(run).map_err(StartError::Thread)?;
        }
        Ok((Pool { jobs, content_bytes, content_bytes_max }, calls))
    }

    /// Hands over a job, or returns it if too many wait.
    pub(super) fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        let bytes = job.content_bytes();
        if self.content_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.content_bytes_max.max(bytes)
        {
            self.content_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Box::new(job));
        }
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => {
                self.content_bytes.fetch_sub(bytes, Ordering::Relaxed);
                Box::new(job)
            }
        })
    }
}

/// Runs jobs until no worker is left.
fn run(
    waiting: &Mutex<Receiver<Job>>,
    content_bytes: &AtomicUsize,
    occupied: &ThreadCount,
    watched: &WatchedThread,
) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => {
                let bytes = job.content_bytes();
                occupied.change(1);
                job.run(watched);
                occupied.change(-1);
                content_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Err(_) => return,
        }
    }
}

impl Job {
    /// Returns the length of a request's content.
    fn content_bytes(&self) -> usize {
        match self {
            Job::Answer { request, .. } => request.content().len(),
            Job::Produce { .. } => 0,
        }
    }

    fn run(self, watched: &WatchedThread) {
        match self {
            Job::Answer { routes, request, client, address, ticket, is_wanted, mailbox, notices } => {
                if is_wanted.strong_count() == 0 {
                    return;
                }
                let response = answer(&routes, &request, client, watched, &notices);
                let finished = Box::new(HandledRequest { request, response: Some(response) });
                mailbox.deliver(address, DeliveryContent::Response(ticket, finished));
            }
            Job::Produce { produce, mut writer, bodies, notices } => {
                let number = bodies.occupy(Instant::now(), writer.stopper());
                let produced = catch_unwind(AssertUnwindSafe(|| produce(&mut writer)));
                bodies.vacate(number);
                let fault = match produced {
                    Ok(Ok(())) => return writer.finish(),
                    // The client has left or others wait, and the function has noticed it.
                    Ok(Err(_)) if writer.is_cancelled() => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the function has panicked".to_owned(),
                };
                // The thread that receives notices may have stopped.
                let _ =
                    notices.send(Notice::HandlerFailed { why: format!("the body of a response: {fault}") });
            }
        }
    }
}
