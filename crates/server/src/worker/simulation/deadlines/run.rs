//! Runs one connection of the table against a worker, and observes what happens to it and when.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_eventloop::Waker;
use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, Path, PeerId, Random, ReadRate, Simulated, SimulatedListener,
};
use cannery_routes::{BodyWriter, Group, Request, Response, Routes};
use cannery_testkit::http2::{Decoder, Frame, GOAWAY, HEADERS, decode_response};

use super::super::http3::scripted::{Deed, Habits, Scripted};
use super::super::http3::{self, address};
use super::super::site::Releases;
use crate::config::{self, Config, HttpVersions, ListenerKind};
use crate::content::Current;
use crate::observe::{Observer, Status};
use crate::routes::{Pools, Watchdog, WorkerRoutes};
use crate::worker::{Plan, StopFlag, Worker};

/// A connection without a deadline is observed for this time.
const LONG: Duration = Duration::from_secs(300);

/// Iterations of a run after which the worker must be spinning.
const ITERATIONS_MAX: usize = 200_000;

/// Time at which another client connects (if any).
const OTHER_AFTER: Duration = Duration::from_secs(1);

/// The effect of the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The worker has closed the connection, and forgotten it.
    Closed,
    Reset,
    Goaway,
    /// The client gets a response with this status.
    Answered(u16),
}

/// The observed end of a connection.
pub(super) enum Observed {
    Effect {
        effect: Effect,
        time: Duration,
    },
    /// It has ended without any of the expected effects.
    Ended {
        time: Duration,
    },
    /// It is open, without any of them.
    Nothing,
}

impl std::fmt::Display for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Observed::Effect { effect, time } => write!(f, "{effect:?} after {} s", time.as_secs()),
            Observed::Ended { time } => write!(f, "another end after {} s", time.as_secs()),
            Observed::Nothing => f.write_str("no end"),
        }
    }
}

/// A connection, and what happens around it.
pub(super) struct Run {
    client: Client,
    listener: Listener,
    has_other_client: bool,
    /// When a new release is published. The deadline counts from then.
    replaced_at: Option<Duration>,
    /// Whether the clock stands still while a handler has an upload.
    awaits_uploads: bool,
}

enum Client {
    Tcp { actions: Vec<Action>, read_rate: ReadRate },
    Quic { script: Vec<(Duration, Deed)>, habits: Habits },
}

/// The bytes that the worker expects first on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    Plain,
    /// A PROXY header, and HTTP/1.1 or HTTP/2 after it.
    Proxied {
        http1: bool,
    },
    Tls,
}

impl Run {
    pub(super) fn tcp(actions: Vec<Action>) -> Run {
        let client = Client::Tcp { actions, read_rate: ReadRate::Unlimited };
        Run {
            client,
            listener: Listener::Plain,
            has_other_client: false,
            replaced_at: None,
            awaits_uploads: false,
        }
    }

    /// Returns the run of a client that reads at this rate.
    pub(super) fn tcp_at(read_rate: ReadRate, actions: Vec<Action>) -> Run {
        Run { client: Client::Tcp { actions, read_rate }, ..Run::tcp(Vec::new()) }
    }

    /// Returns the run of a client that does these at the given milliseconds.
    pub(super) fn quic(script: Vec<(u64, Deed)>, habits: Habits) -> Run {
        let script = script.into_iter().map(|(at, deed)| (Duration::from_millis(at), deed)).collect();
        Run { client: Client::Quic { script, habits }, ..Run::tcp(Vec::new()) }
    }

    pub(super) fn on(self, listener: Listener) -> Run {
        Run { listener, ..self }
    }

    /// Another client waits for the only connection that may be open.
    pub(super) fn with_other_client(self) -> Run {
        Run { has_other_client: true, ..self }
    }

    pub(super) fn replaced_at(self, time: Duration) -> Run {
        Run { replaced_at: Some(time), ..self }
    }

    /// Handlers of uploads need no time. They have to return.
    pub(super) fn awaiting_uploads(self) -> Run {
        Run { awaits_uploads: true, ..self }
    }

    /// Returns the first of these effects, and its time, if one happens within [`LONG`].
    pub(super) fn observe(self, effects: &[Effect], look_every: Duration) -> Observed {
        let mut running = Running::start(self);
        while running.is_idle() {
            running.step();
            assert!(running.network.elapsed() < Duration::from_secs(5), "the client connects");
        }

        let start = running.replaced_at.unwrap_or(Duration::ZERO);
        let mut next_look = Duration::ZERO;
        for iteration in 0.. {
            if running.network.elapsed() >= LONG {
                break;
            }
            assert!(iteration < ITERATIONS_MAX, "the worker spins after {:?}", running.network.elapsed());
            running.step();

            let now = running.network.elapsed();
            // The clock may stand still once the connection has ended.
            if now >= next_look || running.is_idle() {
                next_look = now + look_every;
                if let Some(effect) = effects.iter().find(|effect| running.has(**effect)) {
                    return Observed::Effect { effect: *effect, time: now.saturating_sub(start) };
                }
                if running.is_idle() && running.network.is_idle() {
                    return Observed::Ended { time: now };
                }
            }
        }

        Observed::Nothing
    }

    /// Returns when the other client, which has waited, gets its response.
    pub(super) fn other_client_is_answered(self) -> Option<Duration> {
        let mut running = Running::start(self.with_other_client());
        let other = running.other_client?;
        while running.network.elapsed() < LONG {
            running.step();
            if running.network.state(other) == ConnectionState::Closed {
                return has_answer(&running.network.received(other), 200).then(|| running.network.elapsed());
            }
        }
        None
    }

    /// Returns the time for which a release is open that is replaced after two seconds.
    pub(super) fn release_is_open_for(self) -> Option<Duration> {
        let mut running = Running::start(self.replaced_at(Duration::from_secs(2)));
        while running.network.elapsed() < LONG {
            running.step();
            if Arc::strong_count(&running.releases.first) == 1 {
                return Some(running.network.elapsed());
            }
        }
        None
    }
}

/// A run that has begun.
struct Running {
    network: Network,
    worker: Worker<Simulated>,
    releases: Releases,
    current: Arc<Current>,
    replaced_at: Option<Duration>,
    client: RunningClient,
    other_client: Option<PeerId>,
    handlers: Handlers,
    awaits_uploads: bool,
    /// Number of uploads that handlers had answered after the last step.
    answered: usize,
}

enum RunningClient {
    Tcp(PeerId),
    Quic(Rc<RefCell<Scripted>>),
}

impl Running {
    fn start(run: Run) -> Running {
        let network = Network::new(3);
        // References to these copies are counted.
        let releases = Releases::build().unshared();
        let current = Arc::new(Current::new(Arc::clone(&releases.first)));
        let handlers = Handlers::new();
        let connections_max = run.has_other_client.then_some(NonZeroUsize::MIN);
        let has_http1 = run.listener != (Listener::Proxied { http1: false });
        let versions = if has_http1 { HttpVersions::All } else { HttpVersions::Http2 };
        let config = Config {
            connections_max,
            proxy_protocol: matches!(run.listener, Listener::Proxied { .. }),
            versions,
            ..Config::plain(config::Content::dummy(b""))
        };
        let kind = if run.listener == Listener::Tls { ListenerKind::Tls } else { ListenerKind::Plain };
        let stop = Arc::new(StopFlag::default());
        let listeners = [(kind, SimulatedListener)];
        let plan = Plan::new(&config, listeners, Arc::clone(&current), stop, Observer::default())
            .with_routes(Some(handlers.routes()))
            .with_tls(Some(http3::TLS_CONTEXT.clone()))
            .with_http3(http3::http3_plan(&network, None, &mut Random::new(3)), http3::ALT_SVC.to_owned());
        let worker = Worker::new(Simulated::new(network.clone()), plan).expect("it watches any socket");

        let client = match run.client {
            Client::Tcp { mut actions, read_rate } => {
                actions.push(Action::AwaitClose);
                RunningClient::Tcp(network.connect(Duration::ZERO, actions, read_rate, 5000))
            }
            Client::Quic { script, habits } => {
                let client = Rc::new(RefCell::new(Scripted::new(script, habits, worker.now())));
                network.add_datagram_peer(address(0, 0), Rc::clone(&client) as _, Path::PERFECT);
                RunningClient::Quic(client)
            }
        };
        let other_client = run.has_other_client.then(|| {
            let request = b"GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec();
            let actions = vec![Action::Send(request), Action::ShutdownWrite];
            network.connect(OTHER_AFTER, actions, ReadRate::Unlimited, 5000)
        });
        let Run { replaced_at, awaits_uploads, .. } = run;
        Running {
            network,
            worker,
            releases,
            current,
            replaced_at,
            client,
            other_client,
            handlers,
            awaits_uploads,
            answered: 0,
        }
    }

    fn step(&mut self) {
        if self.replaced_at.is_some_and(|at| self.network.elapsed() >= at)
            && Arc::ptr_eq(&self.current.get(), &self.releases.first)
        {
            self.current.replace(Arc::clone(&self.releases.second));
            self.network.wake();
        }
        self.worker.run_iteration(None);
        if self.awaits_uploads {
            while self.handlers.pools.has_uploads() {
                std::thread::yield_now();
            }
            // The pool may have answered before the iteration ended.
            let answered = self.handlers.answered.load(Ordering::Relaxed);
            if std::mem::replace(&mut self.answered, answered) != answered {
                self.network.wake();
            }
        }
        if self.handlers.write_bodies() {
            self.network.wake();
        }
    }

    /// Returns `true` if the worker has no connection of the client.
    fn is_idle(&self) -> bool {
        match &self.client {
            // The other client takes its place.
            RunningClient::Tcp(peer)
                if self.other_client.is_some() && self.network.elapsed() > OTHER_AFTER =>
            {
                self.network.state(*peer) != ConnectionState::Open
            }
            RunningClient::Tcp(_) => self.worker.is_idle(),
            RunningClient::Quic(_) => self.worker.http3.as_ref().is_none_or(|http3| http3.len() == 0),
        }
    }

    fn has(&self, effect: Effect) -> bool {
        match (&self.client, effect) {
            (RunningClient::Tcp(peer), Effect::Closed) => {
                self.is_idle() && self.network.state(*peer) != ConnectionState::Reset
            }
            (RunningClient::Tcp(peer), Effect::Reset) => self.network.state(*peer) == ConnectionState::Reset,
            (RunningClient::Tcp(peer), Effect::Goaway) => {
                frames(&self.network.received(*peer)).any(|frame| frame.kind == GOAWAY)
            }
            (RunningClient::Tcp(peer), Effect::Answered(status)) => {
                has_answer(&self.network.received(*peer), status)
            }
            (RunningClient::Quic(_), Effect::Closed) => self.is_idle(),
            (RunningClient::Quic(_), Effect::Reset) => false,
            (RunningClient::Quic(client), Effect::Goaway) => client.borrow().has_goaway(),
            (RunningClient::Quic(client), Effect::Answered(status)) => {
                client.borrow().status(0) == Some(status)
            }
        }
    }
}

fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame> {
    let is_http1 = bytes.starts_with(b"HTTP/1.1 ");
    std::iter::from_fn(move || if is_http1 { None } else { Frame::parse(&mut bytes) })
}

/// Returns `true` if the bytes that a client has received have a response with this status.
fn has_answer(received: &[u8], status: u16) -> bool {
    let line = format!("HTTP/1.1 {status} ");
    if received.windows(line.len()).any(|bytes| bytes == line.as_bytes()) {
        return true;
    }
    let mut decoder = Decoder::new();
    frames(received)
        .filter(|frame| frame.kind == HEADERS)
        .any(|frame| decode_response(&mut decoder, &frame.payload).status == status)
}

/// Handlers of a program that contains the server.
///
/// - `GET /stuck` does not return while the run lasts.
/// - `GET /silent` has a body of which it writes nothing, and `GET /endless` one without end.
/// - `POST /upload` takes content.
/// - `POST /read` reads content while it arrives, and `POST /unread` does not while the run lasts.
/// - `POST /early` returns without reading, and only drops the content after the run.
struct Handlers {
    silent: Arc<Mutex<Vec<BodyWriter>>>,
    endless: Arc<Mutex<Vec<BodyWriter>>>,
    routes: Arc<Routes>,
    pools: Pools,
    watchdog: RefCell<Watchdog>,
    /// Number of uploads that were answered.
    answered: Arc<AtomicUsize>,
    /// The handler that is stuck waits until this is dropped.
    _stuck_until: Sender<()>,
}

impl Handlers {
    fn new() -> Handlers {
        let (stuck_until, end) = channel();
        let end = Arc::new(Mutex::new(end));
        let (silent, endless) = (Arc::default(), Arc::default());
        let answered = Arc::new(AtomicUsize::new(0));
        let answers = [Arc::clone(&answered), Arc::clone(&answered)];
        let [early, read] = answers.map(|answered| move || answered.fetch_add(1, Ordering::Relaxed));

        let body = |writers: &Arc<Mutex<Vec<BodyWriter>>>| {
            let writers = Arc::clone(writers);
            move |_: &Request<'_>| {
                let (writer, response) = Response::channel("text/plain");
                writers.lock().unwrap().push(writer);
                response
            }
        };

        let wait = move || {
            let _ = end.lock().unwrap().recv();
            "too late"
        };
        let unread = wait.clone();
        let unused = Mutex::new(Vec::new());
        let stuck = move |_: &Request<'_>| wait();
        let group = Group::default()
            .content_bytes_max(1 << 24)
            .route("GET /silent", body(&silent))
            .route("GET /endless", body(&endless))
            .route("POST /upload", |_: &Request<'_>| "taken")
            .blocking_route("GET /stuck", stuck)
            .upload_route("POST /unread", move |_, _| unread())
            .upload_route("POST /early", move |_, content| {
                unused.lock().unwrap().push(content);
                early();
                "early"
            })
            .upload_route("POST /read", move |_, mut content| {
                let copied = std::io::copy(&mut content, &mut std::io::sink());
                read();
                copied.map(|_| "read")
            });
        let routes = Arc::new(Routes::new(&group, 0).unwrap());
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let (pools, watchdog) = Pools::new(1, usize::MAX, &routes, Duration::MAX, &status);
        let watchdog = RefCell::new(watchdog);
        Handlers { silent, endless, routes, pools, watchdog, answered, _stuck_until: stuck_until }
    }

    fn routes(&self) -> WorkerRoutes {
        let (routes, pools) = (Arc::clone(&self.routes), self.pools.clone());
        let mut watchdog = self.watchdog.borrow_mut();
        WorkerRoutes::new(routes, pools, Waker::new().unwrap(), channel().0, &mut watchdog)
    }

    /// Writes as much of the endless bodies as there is room for. Returns `true` if anything was
    /// written.
    fn write_bodies(&self) -> bool {
        let mut has_written = false;
        self.endless.lock().unwrap().retain_mut(|writer| match writer.try_write(&[b'x'; 4096]) {
            Ok(bytes) => {
                has_written |= bytes > 0;
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        self.silent.lock().unwrap().retain(|writer| !writer.is_cancelled());
        has_written
    }
}
