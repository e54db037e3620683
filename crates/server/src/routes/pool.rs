//! Thread pools for handlers that may block, e.g. in order to wait for a database or another
//! server.
//!
//! Both the number of waiting requests and the size of their content are bounded. A handler that never
//! returns only occupies its own thread. Bodies have a separate pool because they can occupy a thread
//! until a slow client has received everything.

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

/// The server's thread pools.
#[derive(Clone)]
pub(crate) struct Pools {
    /// Runs handlers.
    pub(super) handlers: Pool,
    /// Writes bodies.
    pub(super) producers: Pool,
    /// The bodies that `producers` write.
    bodies: BodyThreads,
}

impl Pools {
    /// Starts the threads, which count themselves in `status` while they are working, and exit after all
    /// workers have exited.
    ///
    /// At any time, the content of all requests may have up to `content_bytes_max` bytes (but a single
    /// request can always have more). Also returns a watchdog, which will report handlers that take longer
    /// than `limit`.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
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

    /// Lets a thread write a body. Returns `false` if too many bodies are waiting for a thread or have been
    /// waiting for too long.
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

/// Submits jobs to the threads of a pool.
#[derive(Clone)]
pub(super) struct Pool {
    jobs: SyncSender<Job>,
    /// Content size of all requests that are waiting or running, in bytes.
    content_bytes: Arc<AtomicUsize>,
    content_bytes_max: usize,
}

/// Work for a thread of a pool.
pub(super) enum Job {
    /// Make the response to a request.
    Answer {
        routes: Arc<Routes>,
        request: StoredRequest,
        client: RouteClient,
        address: ConnectionAddress,
        ticket: Ticket,
        /// Can be upgraded while the connection is expecting the response.
        is_wanted: Weak<()>,
        mailbox: Mailbox,
        notices: Sender<Notice>,
    },
    /// Write the body of a response.
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
            // These threads do not enter a sandbox: handlers can do anything the program may do.
            let thread = Builder::new().name(format!("{name}-{number}"));
            let run = move || run(&waiting, &content_bytes, count(&status.pool_threads), &watched);
            thread.spawn(run).map_err(StartError::Thread)?;
        }
        Ok((Pool { jobs, content_bytes, content_bytes_max }, calls))
    }

    /// Submits a job. Returns it if too many are waiting.
    pub(super) fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        let bytes = job.content_bytes();
        // A request always fits if it is the only one, however large it is.
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

/// Runs jobs until all workers have exited.
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
    /// Returns the size of the request content, in bytes.
    fn content_bytes(&self) -> usize {
        match self {
            Job::Answer { request, .. } => request.content().len(),
            Job::Produce { .. } => 0,
        }
    }

    fn run(self, watched: &WatchedThread) {
        match self {
            Job::Answer { routes, request, client, address, ticket, is_wanted, mailbox, notices } => {
                // The connection may have closed, or given up on the handler.
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
                    // The client has disconnected or others were waiting, and the function has noticed that.
                    Ok(Err(_)) if writer.is_cancelled() => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the function has panicked".to_owned(),
                };
                // We can ignore an error here: the receiving thread may have stopped already.
                let _ =
                    notices.send(Notice::HandlerFailed { why: format!("the body of a response: {fault}") });
            }
        }
    }
}
