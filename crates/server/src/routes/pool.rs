//! Thread pools for handlers that may block, e.g. in order to wait for a database or another
//! server.
//!
//! Both the number of waiting requests and the size of their content are bounded. A handler that never
//! returns only occupies its own thread. Bodies have a separate pool because they can occupy a thread
//! until a slow client has received everything, and so do uploads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use cannery_routes::{BodyStopper, BodyWriter, ContentReader, Producer, Routes};
use cannery_wire::StoredRequest;

use super::body_threads::{BodyThreads, Stopper};
use super::limits::{BODY_COLLECTED_MS, BODY_THREADS_PER_HANDLER_THREAD, HANDLERS_WAITING_MAX};
use super::watch::{Watchdog, WatchedThread};
use super::{ConnectionAddress, DeliveryContent, Mailbox, RouteClient, Ticket, answer, busy};
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
    flusher: Flusher,
    /// Runs handlers that read content while it arrives.
    uploaders: Pool,
    /// The uploads that `uploaders` read.
    pub(super) uploads: BodyThreads,
}

impl Pools {
    /// Creates pools of up to `threads` threads. They are started when they are needed, count themselves in `status` while they are
    /// working, and exit after all workers have exited.
    ///
    /// At any time, all requests may take up to `request_bytes_max` bytes (but a single request can always take
    /// more). Also returns a watchdog, which will report handlers that take longer
    /// than `limit`.
    pub(crate) fn new(
        threads: usize,
        request_bytes_max: usize,
        routes: &Arc<Routes>,
        limit: Duration,
        status: &Arc<Status>,
    ) -> (Pools, Watchdog) {
        let pool = |name, threads, count: fn(&OccupiedThreads) -> &ThreadCount| {
            Pool::new(name, threads, request_bytes_max, status, count)
        };
        let (handlers, calls) = pool("handler", threads, |occupied| &occupied.handlers);
        let body_threads = threads * BODY_THREADS_PER_HANDLER_THREAD;
        let (producers, _) = pool("body", body_threads, |occupied| &occupied.bodies);
        // Each upload tells the watchdog which thread it has.
        let (uploaders, _) = pool("upload", body_threads, |occupied| &occupied.uploads);
        let (bodies, uploads) = (BodyThreads::default(), BodyThreads::default());
        let watchdog = Watchdog::new(Arc::clone(routes), Arc::clone(status), &calls, limit).with_bodies(
            bodies.clone(),
            uploads.clone(),
            body_threads,
        );
        let flusher = Flusher::default();
        (Pools { handlers, producers, bodies, flusher, uploaders, uploads }, watchdog)
    }

    /// Returns `true` until all submitted uploads have been answered.
    #[cfg(test)]
    pub(crate) fn has_uploads(&self) -> bool {
        self.uploaders.request_bytes.load(Ordering::Acquire) > 0
    }

    /// Submits a request whose handler reads content while it arrives. Returns it if too many are waiting for a thread, or have been
    /// waiting for too long.
    pub(super) fn upload(&self, job: Job) -> Result<(), Box<Job>> {
        let is_wanted = match &job {
            Job::Answer { is_wanted, .. } => Weak::clone(is_wanted),
            Job::Produce { .. } => Weak::new(),
        };
        if !self.uploads.enter(Instant::now(), Weak::clone(&is_wanted)) {
            return Err(Box::new(job));
        }
        self.uploaders.submit(job).inspect_err(|_| self.uploads.leave(&is_wanted))
    }

    /// Lets a thread write a body. Returns the job if too many bodies are waiting for a thread, or have been
    /// waiting for too long.
    pub(super) fn produce(&self, mut body: ProducedBody, notices: Sender<Notice>) -> Result<(), Box<Job>> {
        if let Some(due) = self.flusher.due() {
            body.writer.collect_writes(due);
        }
        let is_wanted = Weak::clone(&body.is_wanted);
        let job = Job::Produce { body, bodies: self.bodies.clone(), notices };
        if !self.bodies.enter(Instant::now(), Weak::clone(&is_wanted)) {
            return Err(Box::new(job));
        }
        self.producers.submit(job).inspect_err(|_| self.bodies.leave(&is_wanted))
    }
}

/// A thread that sends the short writes that bodies have collected. It is started when it is needed, and exits after the pools and all
/// bodies.
#[derive(Clone, Default)]
struct Flusher(Arc<OnceLock<Option<Sender<BodyStopper>>>>);

impl Flusher {
    /// Returns where to send bodies that collect writes. Without a thread, they can't.
    fn due(&self) -> Option<Sender<BodyStopper>> {
        let start = || {
            let (due, bodies) = channel::<BodyStopper>();
            let thread = Builder::new().name("body-flush".to_owned()).spawn(move || {
                while let Ok(first) = bodies.recv() {
                    std::thread::sleep(Duration::from_millis(BODY_COLLECTED_MS));
                    // A body that is flushed may send itself again at once, so take all of them before.
                    let due: Vec<_> = std::iter::once(first).chain(bodies.try_iter()).collect();
                    due.iter().for_each(BodyStopper::flush);
                }
            });
            thread.is_ok().then_some(due)
        };
        self.0.get_or_init(start).clone()
    }
}

/// Submits jobs to the threads of a pool.
#[derive(Clone)]
pub(super) struct Pool {
    /// The threads exit once all of these have been dropped.
    queue: Arc<OpenQueue>,
    /// The number that each thread stores for its handler, for all threads that there may be.
    calls: Arc<[Arc<AtomicU64>]>,
    name: &'static str,
    status: Arc<Status>,
    count: fn(&OccupiedThreads) -> &ThreadCount,
    /// Memory of all requests that are waiting or running, in bytes.
    request_bytes: Arc<AtomicUsize>,
    request_bytes_max: usize,
}

/// Closes the queue when it is dropped.
struct OpenQueue(Arc<Queue>);

/// Jobs that are waiting for a thread.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Notified when there is another job, and when the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// Threads that are waiting for a job.
    idle: usize,
    /// Threads that were started.
    started: usize,
    is_closed: bool,
}

/// Work for a thread of a pool.
pub(super) enum Job {
    /// Make the response to a request.
    Answer {
        routes: Arc<Routes>,
        request: StoredRequest,
        /// Content that arrives while the handler is running.
        upload: Option<Upload>,
        client: RouteClient,
        address: ConnectionAddress,
        ticket: Ticket,
        /// Can be upgraded while the connection is expecting the response.
        is_wanted: Weak<()>,
        mailbox: Mailbox,
        notices: Sender<Notice>,
    },
    /// Write the body of a response.
    Produce { body: ProducedBody, bodies: BodyThreads, notices: Sender<Notice> },
}

/// A body that a function writes while it is sent.
pub(super) struct ProducedBody {
    pub(super) produce: Producer,
    pub(super) writer: BodyWriter,
    /// Pattern of the route, for notices.
    pub(super) route: String,
    /// Can be upgraded while the connection is expecting the response.
    pub(super) is_wanted: Weak<()>,
    /// Sends the response's head.
    pub(super) begin: Box<dyn FnOnce() + Send>,
}

/// Content that arrives while its handler is running.
pub(super) struct Upload {
    pub(super) content: ContentReader,
    /// All uploads.
    pub(super) uploads: BodyThreads,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job. Returns `None` once the queue is closed and empty.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Pool {
    /// Also returns the numbers that the threads will store for their handlers.
    fn new(
        name: &'static str,
        threads: usize,
        request_bytes_max: usize,
        status: &Arc<Status>,
        count: fn(&OccupiedThreads) -> &ThreadCount,
    ) -> (Pool, Vec<Arc<AtomicU64>>) {
        let calls: Vec<_> = (0..threads).map(|_| WatchedThread::default().call()).collect();
        let pool = Pool {
            queue: Arc::new(OpenQueue(Arc::default())),
            calls: calls.as_slice().into(),
            name,
            status: Arc::clone(status),
            count,
            request_bytes: Arc::default(),
            request_bytes_max,
        };
        (pool, calls)
    }

    /// Submits a job. Returns it if too many are waiting.
    pub(super) fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        let bytes = job.kept_bytes();
        // A request always fits if it is the only one, however large it is.
        if self.request_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.request_bytes_max.max(bytes)
        {
            self.request_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Box::new(job));
        }
        self.push(job).inspect_err(|_| _ = self.request_bytes.fetch_sub(bytes, Ordering::Relaxed))
    }

    fn push(&self, job: Job) -> Result<(), Box<Job>> {
        let mut state = self.queue.0.lock();
        if state.jobs.len() >= HANDLERS_WAITING_MAX {
            return Err(Box::new(job));
        }
        state.jobs.push_back(job);
        // Threads that were notified before are still idle, but there is a job for each of them.
        if state.idle >= state.jobs.len() || state.started == self.calls.len() {
            self.queue.0.changed.notify_one();
            return Ok(());
        }

        if self.start_thread(state.started).is_ok() {
            state.started += 1;
        } else if state.started == 0 {
            // Without any thread, it would never run.
            return state.jobs.pop_back().map_or(Ok(()), |job| Err(Box::new(job)));
        }
        Ok(())
    }

    fn start_thread(&self, number: usize) -> std::io::Result<()> {
        let queue = Arc::clone(&self.queue.0);
        let request_bytes = Arc::clone(&self.request_bytes);
        let status = Arc::clone(&self.status);
        let watched = WatchedThread::of(Arc::clone(&self.calls[number]));
        let count = self.count;
        // These threads do not enter a sandbox: handlers can do anything the program may do.
        let thread = Builder::new().name(format!("{}-{number}", self.name));
        thread.spawn(move || run(&queue, &request_bytes, count(&status.pool_threads), &watched))?;
        Ok(())
    }
}

/// Runs jobs until all workers have exited.
fn run(queue: &Queue, request_bytes: &AtomicUsize, occupied: &ThreadCount, watched: &WatchedThread) {
    while let Some(job) = queue.next() {
        let bytes = job.kept_bytes();
        occupied.change(1);
        // A panic would end this thread, but it still counts as started. Jobs catch the panics of handlers themselves, so this is for
        // what is left: destructors of the program's values.
        let _ = catch_unwind(AssertUnwindSafe(|| job.run(watched)));
        occupied.change(-1);
        request_bytes.fetch_sub(bytes, Ordering::Release);
    }
}

impl Job {
    /// Returns the memory that the request takes, in bytes.
    fn kept_bytes(&self) -> usize {
        match self {
            Job::Answer { request, .. } => request.memory(),
            Job::Produce { .. } => 0,
        }
    }

    fn run(self, watched: &WatchedThread) {
        match self {
            Job::Answer { routes, request, upload, client, address, ticket, is_wanted, mailbox, notices } => {
                let (content, occupied) = match upload {
                    Some(Upload { content, uploads }) => {
                        let (stopper, is_wanted) = (content.stopper(), Weak::clone(&is_wanted));
                        let number =
                            uploads.occupy_upload(Instant::now(), stopper, watched.call(), is_wanted);
                        (Some(content), Some((uploads, number)))
                    }
                    None => (None, None),
                };
                // The connection may have closed, or given up on the handler.
                let is_wanted = is_wanted.strong_count() > 0;
                let response = is_wanted.then(|| {
                    // The worker can't close connections as fast as threads might make responses that no client takes.
                    if mailbox.kept.refuses() {
                        busy(&routes, &request.head(), client, &notices)
                    } else {
                        answer(&routes, &request, content, client, watched, &notices)
                    }
                });
                if let Some((uploads, number)) = occupied {
                    uploads.vacate(number);
                }
                let Some(response) = response else { return };
                drop(request);
                let held = response.hold(&mailbox.kept);
                mailbox.deliver(address, DeliveryContent::Response(ticket, Box::new(response), held));
            }

            Job::Produce { body, bodies, notices } => {
                let ProducedBody { produce, mut writer, route, is_wanted, begin } = body;
                let number = bodies.occupy(Instant::now(), Stopper::Body(writer.stopper()), &is_wanted);
                // The client may have left, or got an error because there was no thread for too long.
                if is_wanted.strong_count() == 0 {
                    return bodies.vacate(number);
                }
                begin();
                // The program may also implement the error's text and destructor.
                let produced = catch_unwind(AssertUnwindSafe(|| {
                    produce(&mut writer).map_err(|error| error.to_string())
                }));
                bodies.vacate(number);

                let fault = match produced {
                    Ok(Ok(())) => return writer.finish(),
                    // The client has disconnected or others were waiting, and the function has noticed that.
                    Ok(Err(_)) if writer.is_cancelled() => return,
                    Ok(Err(error)) => error,
                    Err(_) => "the function has panicked".to_owned(),
                };
                // We can ignore an error here: the receiving thread may have stopped already.
                let _ = notices
                    .send(Notice::HandlerFailed { why: format!("{route}: the body of a response: {fault}") });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use cannery_routes::BodyReader;

    use super::super::limits::BODY_OCCUPIES_MAX;
    use super::*;

    /// Lets a thread write a body whose client waits. Returns the body's end that the client reads.
    fn produce(pools: &Pools, produce: Producer, notices: &Sender<Notice>) -> BodyReader {
        let (writer, reader) = cannery_routes::body_channel();
        let wanted = Arc::new(());
        let body = ProducedBody {
            produce,
            writer,
            route: "GET /a".to_owned(),
            is_wanted: Arc::downgrade(&wanted),
            begin: Box::new(move || drop(wanted)),
        };
        assert!(pools.produce(body, notices.clone()).is_ok());
        reader
    }

    /// An error whose text panics.
    #[derive(Debug)]
    struct NoText;

    impl std::fmt::Display for NoText {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("a text may panic");
        }
    }

    impl std::error::Error for NoText {}

    #[test]
    fn threads_survive_panics() {
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let (pools, _) = Pools::new(1, 0, &Arc::default(), Duration::MAX, &status);
        let (notices, noticed) = channel();
        let _readers: Vec<_> = (0..2 * BODY_THREADS_PER_HANDLER_THREAD)
            .map(|_| produce(&pools, Box::new(|_| Err(NoText.into())), &notices))
            .collect();
        let (sender, written) = channel();
        let _reader = produce(&pools, Box::new(move |_| Ok(sender.send(())?)), &notices);
        assert_eq!(written.recv_timeout(Duration::from_secs(30)), Ok(()));
        let notice = noticed.recv().unwrap().to_string();
        assert!(notice.contains("GET /a: the body of a response: the function has panicked"), "{notice}");
    }

    #[test]
    fn idle_readers_give_way_to_others() {
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let (pools, mut watchdog) = Pools::new(1, 0, &Arc::default(), Duration::MAX, &status);
        let (notices, noticed) = channel();
        let produce = |job: Producer| produce(&pools, job, &notices);
        let (sender, begun) = channel();
        let next = || begun.recv_timeout(Duration::from_secs(30));
        // The reader takes nothing, so the thread waits.
        let idle = || {
            let sender = sender.clone();
            produce(Box::new(move |body| {
                sender.send("idle")?;
                loop {
                    body.write_all(&[b'x'; 1024])?;
                }
            }))
        };
        let readers: Vec<_> = (0..BODY_THREADS_PER_HANDLER_THREAD).map(|_| idle()).collect();
        for _ in &readers {
            assert_eq!(next(), Ok("idle"));
        }

        let _other = produce(Box::new(move |_| Ok(sender.send("other")?)));
        assert!(watchdog.check(Instant::now()).is_empty() && begun.try_recv().is_err());
        let ended = watchdog.check(Instant::now() + BODY_OCCUPIES_MAX);
        assert!(matches!(ended[..], [Notice::BodiesEnded { bodies: 1, .. }]), "{ended:?}");
        assert_eq!(next(), Ok("other"));
        assert!(noticed.try_recv().is_err(), "no handler has failed");
    }

    #[test]
    fn threads_start_when_they_are_needed() {
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let (pools, _) = Pools::new(1, 0, &Arc::default(), Duration::MAX, &status);
        let started = || pools.producers.queue.0.lock().started;
        let (sender, names) = channel();
        let (proceed, waiting) = channel::<()>();
        let waiting = Arc::new(Mutex::new(waiting));
        let produce = |is_waiting: bool| {
            let (sender, waiting) = (sender.clone(), Arc::clone(&waiting));
            let job = move |_: &mut BodyWriter| {
                if is_waiting {
                    let _ = waiting.lock().unwrap().recv();
                }
                Ok(sender.send(std::thread::current().name().unwrap_or_default().to_owned())?)
            };
            drop(produce(&pools, Box::new(job), &channel().0));
        };
        assert_eq!((started(), pools.handlers.queue.0.lock().started), (0, 0));
        produce(true);
        assert_eq!(started(), 1);
        produce(false);
        let free = names.recv().unwrap();
        assert_eq!(started(), 2, "one thread is busy");
        for _ in 0..99 {
            produce(false);
        }
        assert_eq!(names.iter().take(99).count(), 99);
        assert!(started() <= BODY_THREADS_PER_HANDLER_THREAD);
        proceed.send(()).unwrap();
        assert_ne!(names.recv().unwrap(), free);
    }
}
