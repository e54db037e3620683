//! Tests what counts towards the memory limit besides the connections themselves: responses that handlers have written, and
//! closed HTTP/3 connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cannery_eventloop::Waker;
use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, Path, PeerId, Random, ReadRate, Simulated, SimulatedListener,
};
use cannery_routes::limits::BODY_BYTES_MAX;
use cannery_routes::{BodyWriter, Group, Request, Response, Routes};
use cannery_testkit::http2::{
    END_STREAM, INITIAL_WINDOW_SIZE, PREFACE, field_block, headers, reset, settings, window_update,
};
use cannery_wire::limits::CONNECTIONS_BYTES_MAX;

use super::ITERATIONS_MAX;
use super::http3::scripted::{Deed, Habits, Scripted};
use super::http3::{self, address};
use super::site::Releases;
use crate::config::{self, Config, ListenerKind, Timeouts};
use crate::content::Current;
use crate::observe::{Observer, Status};
use crate::routes::{Pools, WorkerRoutes};
use crate::worker::{Plan, StopFlag, Worker};

/// Length of the response that `GET /whole` gives at once.
const WHOLE_BYTES: usize = 300_000;

/// Time that the pool may take, which the simulation doesn't control.
const POOL_MAX: Duration = Duration::from_secs(30);

/// A client that opens no windows.
const TAKES_NOTHING: Habits = Habits { window: 1000, bytes_per_second: 0, ..Habits::GOOD };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    Http3,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Http1, Protocol::Http2, Protocol::Http3];

/// A worker with routes:
///
/// - `GET /body` has a body that the test writes.
/// - `GET /whole` has a long response, which a thread of the pool makes.
/// - `GET /stuck` does not return while the test runs, so that other requests have to wait for the thread.
/// - `POST /upload` takes content.
struct Site {
    network: Network,
    worker: Worker<Simulated>,
    /// Writers of all bodies, in the order of the requests.
    bodies: Arc<Mutex<Vec<BodyWriter>>>,
    clients: Vec<Rc<RefCell<Scripted>>>,
    /// The handler that is stuck waits until this is dropped.
    _stuck_until: Sender<()>,
}

impl Site {
    fn start(memory_bytes_max: u64) -> Site {
        let network = Network::new(3);
        let bodies: Arc<Mutex<Vec<BodyWriter>>> = Arc::default();
        let body = {
            let bodies = Arc::clone(&bodies);
            move |_: &Request<'_>| {
                let (writer, response) = Response::channel("text/plain");
                bodies.lock().unwrap().push(writer);
                response
            }
        };
        let (stuck_until, end) = channel::<()>();
        let end = Mutex::new(end);
        let stuck = move |_: &Request<'_>| {
            let _ = end.lock().unwrap().recv();
            "too late"
        };
        let group = Group::default()
            .content_bytes_max(1 << 24)
            .route("GET /body", body)
            .route("POST /upload", |_: &Request<'_>| "taken")
            .blocking_route("GET /stuck", stuck)
            .blocking_route("GET /whole", |_: &Request<'_>| vec![b'x'; WHOLE_BYTES]);
        let routes = Arc::new(Routes::new(&group, 0).unwrap());
        let status = Arc::new(Status::new(std::iter::empty(), Arc::default()));
        let (pools, mut watchdog) = Pools::new(1, usize::MAX, &routes, Duration::MAX, &status);
        let routes = WorkerRoutes::new(routes, pools, Waker::new().unwrap(), channel().0, &mut watchdog);

        let config = Config::plain(config::Content::dummy(b""));
        let current = Arc::new(Current::new(Releases::build().first));
        let listeners = [(ListenerKind::Plain, SimulatedListener)];
        let stop = Arc::new(StopFlag::default());
        let plan = Plan::new(&config, listeners, current, stop, Observer::default())
            .with_routes(Some(routes))
            .with_http3(http3::http3_plan(&network, None, &mut Random::new(3)), http3::ALT_SVC.to_owned())
            .with_memory_bytes_max(memory_bytes_max);
        let worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
        Site { network, worker, bodies, clients: Vec::new(), _stuck_until: stuck_until }
    }

    /// Connects a client that sends these bytes and reads at this rate.
    fn connect(&self, bytes: Vec<u8>, read_rate: ReadRate) -> PeerId {
        self.network.connect(Duration::ZERO, vec![Action::Send(bytes), Action::AwaitClose], read_rate, 5000)
    }

    /// Connects an HTTP/3 client that does this, at the given milliseconds.
    fn connect_quic(&mut self, script: impl IntoIterator<Item = (u64, Deed)>, habits: Habits, path: Path) {
        let script = script.into_iter().map(|(at, deed)| (Duration::from_millis(at), deed)).collect();
        let client = Rc::new(RefCell::new(Scripted::new(script, habits, self.worker.now())));
        self.network.add_datagram_peer(address(self.clients.len(), 0), Rc::clone(&client) as _, path);
        self.clients.push(client);
    }

    /// Lets clients request this path and take nothing of the responses: over HTTP/1.1 on as many connections as requests, otherwise
    /// on one.
    fn request(&mut self, protocol: Protocol, path: &'static str, requests: usize) {
        match protocol {
            Protocol::Http1 => {
                let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
                (0..requests).for_each(|_| _ = self.connect(request.clone().into_bytes(), ReadRate::Zero));
            }
            Protocol::Http2 => {
                let requests = (0..requests).map(|number| h2_get(stream(number), path, ""));
                self.connect(h2(0, requests), ReadRate::Unlimited);
            }
            Protocol::Http3 => {
                let get = |name| (0, Deed::Request { name, method: "GET", path, ends: true });
                self.connect_quic((0..requests).map(get), TAKES_NOTHING, Path::PERFECT);
            }
        }
    }

    /// Runs the worker until `is_so`.
    fn run_until(&mut self, what: &str, is_so: impl Fn(&Site) -> bool) {
        for _ in 0..ITERATIONS_MAX {
            if is_so(self) {
                return;
            }
            // The pool can't wake up the simulation. Only iterations without that let time pass.
            self.network.wake();
            self.worker.run_iteration(None);
            self.worker.run_iteration(None);
        }
        panic!("{what}: {} bytes count after {:?}", self.counted(), self.network.elapsed());
    }

    /// Runs the worker until `is_so`, which depends on the pool.
    fn run_with_pool_until(&mut self, what: &str, is_so: impl Fn(&Site) -> bool) {
        let end = Instant::now() + POOL_MAX;
        while !is_so(self) {
            assert!(Instant::now() < end, "{what}: {} bytes count", self.counted());
            self.network.wake();
            self.worker.run_iteration(None);
            std::thread::yield_now();
        }
    }

    /// Returns how many heads of responses a client has received. It reads pieces of random size.
    fn heads(&self, client: PeerId) -> usize {
        self.network.received(client).windows(4).filter(|bytes| bytes == b"\r\n\r\n").count()
    }

    fn run_until_requested(&mut self, bodies: usize) {
        self.run_until("requests", |site| site.bodies.lock().unwrap().len() == bodies);
    }

    /// Writes bodies until their connections take no more.
    fn fill_bodies(&mut self) {
        loop {
            for body in &mut *self.bodies.lock().unwrap() {
                while body.try_write(&[b'x'; BODY_BYTES_MAX / 4]).is_ok() {}
            }
            let filled = self.kept();
            self.network.wake();
            self.worker.run_iteration(None);
            if self.kept() == filled {
                return;
            }
        }
    }

    /// Returns the number of response bytes that handlers have written and that no connection has taken.
    fn kept(&self) -> usize {
        self.worker.cx.routes.as_ref().unwrap().kept_bytes()
    }

    /// Returns the number of bytes that count towards the memory limit.
    fn counted(&self) -> u64 {
        self.worker.cx.memory.bytes()
    }

    /// For each body, whether its client is gone.
    fn are_cancelled(&self) -> Vec<bool> {
        self.bodies.lock().unwrap().iter().map(BodyWriter::is_cancelled).collect()
    }

    fn http3_connections(&self) -> usize {
        self.worker.http3.as_ref().unwrap().len()
    }

    /// Checks that a new client gets a response.
    fn check_service(&mut self) {
        let request = b"GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec();
        let actions = vec![Action::Send(request), Action::ShutdownWrite];
        let peer = self.network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 5000);
        self.run_until("service", |site| site.network.state(peer) != ConnectionState::Open);
        assert!(self.network.received(peer).starts_with(b"HTTP/1.1 200 "));
    }
}

/// Returns an HTTP/2 stream number.
fn stream(number: usize) -> u32 {
    u32::try_from(2 * number + 1).unwrap()
}

/// Returns an HTTP/2 request with a field of this value.
fn h2_get(stream: u32, path: &str, value: &str) -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "h"), ("x-value", value)];
    headers(stream, END_STREAM, &field_block(&fields))
}

/// Returns the first bytes of an HTTP/2 client whose streams have this window.
fn h2(window: u32, requests: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let start = [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, window)])].concat();
    std::iter::once(start).chain(requests).flatten().collect()
}

#[test]
fn bodies_count_until_their_clients_are_timed_out() {
    const BODIES: usize = 10;
    for protocol in PROTOCOLS {
        let mut site = Site::start(CONNECTIONS_BYTES_MAX);
        site.request(protocol, "/body", BODIES);
        site.run_until_requested(BODIES);
        site.fill_bodies();
        // As much as connections have taken, and again as much that waits.
        let kept = site.kept();
        assert!(kept >= BODIES * BODY_BYTES_MAX, "{protocol:?}: {kept}");
        let counted = site.counted();
        assert!(counted >= (2 * BODIES * BODY_BYTES_MAX) as u64, "{protocol:?}: {counted}");

        site.run_until("timeouts", |site| site.counted() == 0);
        assert_eq!((site.kept(), site.are_cancelled()), (0, vec![true; BODIES]), "{protocol:?}");
        assert!(site.network.elapsed() < 3 * Timeouts::default().send, "{protocol:?}");
    }
}

#[test]
fn bodies_count_until_their_streams_are_reset() {
    const BODIES: usize = 20;
    let mut site = Site::start(CONNECTIONS_BYTES_MAX);
    let requests = h2(0, (0..BODIES).map(|number| h2_get(stream(number), "/body", "")));
    let resets = (1..BODIES).flat_map(|number| reset(stream(number))).collect();
    let actions = vec![
        Action::Send(requests),
        Action::Pause(Duration::from_secs(5)),
        Action::Send(resets),
        Action::AwaitClose,
    ];
    let peer = site.network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 5000);
    site.run_until_requested(BODIES);
    // The heads don't fit into the socket at once.
    site.run_until("the heads", |site| site.network.elapsed() > Duration::from_secs(1));
    site.fill_bodies();
    assert!(site.kept() >= BODIES * BODY_BYTES_MAX);

    let one = 2 * BODY_BYTES_MAX;
    site.run_until("resets", |site| site.kept() <= one);
    let expected: Vec<bool> = (0..BODIES).map(|number| number > 0).collect();
    assert_eq!(site.are_cancelled(), expected);
    site.run_until("the count", |site| site.counted() < 3 * one as u64);
    assert_eq!(site.network.state(peer), ConnectionState::Open);
}

#[test]
fn bodies_count_until_they_are_sent() {
    let mut site = Site::start(CONNECTIONS_BYTES_MAX);
    let request = b"GET /body HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    site.connect(request, ReadRate::BytesPerSecond(20_000));
    let requests = h2(0, std::iter::once(h2_get(1, "/body", "")));
    let windows = [window_update(0, 1 << 24), window_update(1, 1 << 24)].concat();
    let actions = vec![
        Action::Send(requests),
        Action::Pause(Duration::from_secs(1)),
        Action::Send(windows),
        Action::AwaitClose,
    ];
    site.network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 5000);
    let get = Deed::Request { name: 0, method: "GET", path: "/body", ends: true };
    let habits = Habits { window: 40_000, bytes_per_second: 60_000, ..Habits::GOOD };
    site.connect_quic([(0, get)], habits, Path::PERFECT);

    site.run_until_requested(3);
    let idle = site.counted();
    site.fill_bodies();
    assert!(site.kept() >= 3 * BODY_BYTES_MAX);
    site.bodies.lock().unwrap().drain(..).for_each(BodyWriter::finish);
    site.run_until("the responses", |site| site.kept() == 0);
    site.run_until("the count", |site| site.counted() < idle + 4096);
    assert!(site.network.elapsed() < Timeouts::default().send, "none has timed out");
}

#[test]
fn connection_whose_bodies_take_most_is_closed_first() {
    const MEMORY_MAX: u64 = 1 << 20;
    const BODIES: usize = 10;
    for protocol in [Protocol::Http2, Protocol::Http3] {
        let mut site = Site::start(MEMORY_MAX);
        let modest = h2(0, std::iter::once(h2_get(1, "/body", "")));
        let modest = site.connect(modest, ReadRate::Unlimited);
        site.run_until_requested(1);
        site.request(protocol, "/body", BODIES);
        site.run_until_requested(1 + BODIES);
        site.fill_bodies();

        let expected: Vec<bool> = (0..=BODIES).map(|number| number > 0).collect();
        assert_eq!(site.are_cancelled(), expected, "{protocol:?}");
        assert_eq!(site.network.state(modest), ConnectionState::Open, "{protocol:?}");
        assert!(site.counted() <= MEMORY_MAX, "{protocol:?}: {}", site.counted());
        site.check_service();
    }
}

/// Another connection takes more than the one whose bodies wait, but less than that and the bodies together.
#[test]
fn bodies_decide_which_connection_is_closed() {
    const MEMORY_MAX: u64 = 850_000;
    const BODIES: usize = 10;
    for protocol in [Protocol::Http2, Protocol::Http3] {
        let mut site = Site::start(MEMORY_MAX);
        let head = "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
        let upload = site.connect([head.as_bytes(), &[b'x'; 200_000]].concat(), ReadRate::Unlimited);
        site.run_until("the upload", |site| site.counted() > 200_000);
        site.request(protocol, "/body", BODIES);
        site.run_until_requested(BODIES);

        // After that much, connections take no more.
        let start = [b'x'; 20 * 1024];
        site.bodies.lock().unwrap().iter_mut().for_each(|body| _ = body.try_write(&start).unwrap());
        site.network.wake();
        site.worker.run_iteration(None);
        assert_eq!(site.kept(), 0, "{protocol:?}");
        site.fill_bodies();
        assert_eq!(site.are_cancelled(), [true; BODIES], "{protocol:?}");
        assert_eq!(site.network.state(upload), ConnectionState::Open, "{protocol:?}");
        assert!(site.counted() <= MEMORY_MAX, "{protocol:?}: {}", site.counted());
    }
}

/// Between the handler's end and the delivery, a response belongs to no connection.
#[test]
fn response_on_its_way_closes_no_connection() {
    const MEMORY_MAX: u64 = 200_000;
    let mut site = Site::start(MEMORY_MAX);
    let keep = b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    let idle = site.connect(keep.clone(), ReadRate::Unlimited);
    // It connects before, as none are accepted while memory is tight.
    let second = [Action::Pause(Duration::from_secs(10)), Action::Send(keep.clone()), Action::AwaitClose];
    let actions = std::iter::once(Action::Send(keep)).chain(second).collect();
    let other = site.network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 5000);
    site.run_until("the first responses", |site| site.heads(idle) == 1 && site.heads(other) == 1);
    let whole = site.connect(b"GET /whole HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), ReadRate::Unlimited);
    let sent = site.network.elapsed();
    while site.network.elapsed() - sent < Duration::from_secs(1) {
        site.worker.run_iteration(None);
    }
    // The clock stands still while the pool works.
    let end = Instant::now() + POOL_MAX;
    while site.kept() < WHOLE_BYTES {
        assert!(Instant::now() < end, "the pool");
        std::thread::yield_now();
    }

    // It isn't woken up, so the response stays where it is.
    for _ in 0..ITERATIONS_MAX {
        if site.heads(other) == 2 {
            break;
        }
        site.worker.run_iteration(None);
    }
    assert_eq!(site.heads(other), 2);
    assert!(site.kept() >= WHOLE_BYTES);
    let are_open =
        |site: &Site| [idle, whole, other].map(|peer| site.network.state(peer) == ConnectionState::Open);
    assert_eq!(are_open(&site), [true; 3]);

    site.run_until("the delivery", |site| site.kept() == 0);
    // Only the connection that it is for has to pay.
    let [idle, _, other] = are_open(&site);
    assert!(idle && other);
    site.check_service();
}

/// Bodies that no client takes may have half of the memory. Other requests are answered nevertheless, and soon, the connections of
/// these bodies are closed.
#[test]
fn stalled_bodies_hold_up_no_other_requests() {
    const MEMORY_MAX: u64 = 1_700_000;
    const BODIES: [usize; 2] = [5, 10];
    for protocol in [Protocol::Http2, Protocol::Http3] {
        let mut site = Site::start(MEMORY_MAX);
        let mut all = 0;
        for bodies in BODIES {
            site.request(protocol, "/body", bodies);
            all += bodies;
            site.run_until_requested(all);
        }
        let start = [b'x'; 20 * 1024];
        site.bodies.lock().unwrap().iter_mut().for_each(|body| _ = body.try_write(&start).unwrap());
        site.network.wake();
        site.worker.run_iteration(None);
        site.fill_bodies();
        let half = usize::try_from(MEMORY_MAX / 2).unwrap();
        assert!((half + 1..half + BODY_BYTES_MAX + 20 * 1024).contains(&site.kept()), "{}", site.kept());
        assert_eq!(site.are_cancelled(), vec![false; all]);

        let request = b"GET /whole HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec();
        let other = site.connect(request, ReadRate::Unlimited);
        site.run_with_pool_until("the response", |site| site.heads(other) == 1);
        assert!(site.network.received(other).starts_with(b"HTTP/1.1 200 "), "{protocol:?}");

        let start = site.network.elapsed();
        site.run_until("shedding", |site| site.kept() <= half / 4 * 3);
        assert!(site.network.elapsed() - start < Duration::from_secs(4), "{protocol:?}");
        let expected: Vec<bool> = (0..all).map(|number| number >= BODIES[0]).collect();
        assert_eq!(site.are_cancelled(), expected, "{protocol:?}: the connection that keeps the most");
        site.check_service();
    }
}

#[test]
fn pool_refuses_requests_while_memory_is_tight() {
    let mut site = Site::start(CONNECTIONS_BYTES_MAX);
    let tight = u32::try_from(CONNECTIONS_BYTES_MAX / 8 * 7).unwrap();
    site.worker.cx.memory.change(0, tight);
    let request = b"GET /whole HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    let refused = site.connect(request.clone(), ReadRate::Unlimited);
    site.run_with_pool_until("the refusal", |site| site.heads(refused) == 1);
    assert!(site.network.received(refused).starts_with(b"HTTP/1.1 503 "));

    site.worker.cx.memory.change(tight, 0);
    let taken = site.connect(request, ReadRate::Unlimited);
    site.run_with_pool_until("the response", |site| site.heads(taken) == 1);
    assert!(site.network.received(taken).starts_with(b"HTTP/1.1 200 "));
}

/// A connection that can't send does not take responses that its handlers have given at once.
#[test]
fn whole_responses_count_until_they_are_sent() {
    for protocol in PROTOCOLS {
        let mut site = Site::start(CONNECTIONS_BYTES_MAX);
        match protocol {
            Protocol::Http1 => {
                let requests =
                    ["/large", "/whole"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
                site.connect(requests.concat().into_bytes(), ReadRate::Zero);
            }
            Protocol::Http2 => {
                let requests = [window_update(0, 1 << 24), h2_get(1, "/large", ""), h2_get(3, "/whole", "")];
                site.connect(h2(1 << 24, requests.into_iter()), ReadRate::Zero);
            }
            Protocol::Http3 => site.request(protocol, "/whole", 1),
        }
        // The clock stands still while the pool works.
        site.run_until("the request", |site| site.network.elapsed() > Duration::from_secs(1));
        let whole = WHOLE_BYTES as u64;
        let is_kept = protocol != Protocol::Http3;
        site.run_with_pool_until("the response", |site| {
            site.counted() > whole && (site.kept() >= WHOLE_BYTES) == is_kept
        });
        site.run_until("timeouts", |site| site.counted() == 0);
        assert_eq!(site.kept(), 0, "{protocol:?}");
    }
}

#[test]
fn heads_of_requests_count_while_handlers_run() {
    const REQUESTS: usize = 40;
    const HEAD_BYTES: usize = 8000;
    let mut site = Site::start(CONNECTIONS_BYTES_MAX);
    let value = "v".repeat(HEAD_BYTES);
    let requests = (0..REQUESTS).map(|number| h2_get(stream(number), "/stuck", &value));
    site.connect(h2(65_535, requests), ReadRate::Unlimited);
    let all = (REQUESTS * HEAD_BYTES) as u64;
    site.run_until("the requests", |site| site.counted() > all);
    // Each is answered with a 503.
    site.run_until("timeouts", |site| site.counted() < HEAD_BYTES as u64);
}

/// HTTP/3 clients that begin uploads and stop, so that the worker closes their connections, and then clients that upload over
/// HTTP/1.1.
struct Uploads {
    site: Site,
    peers: Vec<PeerId>,
    /// Bytes that count for the closed connections.
    closed: u64,
}

impl Uploads {
    fn run(memory_bytes_max: u64) -> Uploads {
        const CLIENTS: usize = 3;
        let mut site = Site::start(memory_bytes_max);
        for _ in 0..CLIENTS {
            let begin = Deed::Request { name: 0, method: "POST", path: "/upload", ends: false };
            let content = Deed::Content { name: 0, bytes: 50_000 };
            // On such a long way, closed connections are kept for seconds.
            let path = Path { latency: Duration::from_millis(500), ..Path::PERFECT };
            site.connect_quic([(0, begin), (0, content)], Habits::GOOD, path);
        }
        site.run_until("HTTP/3 connections", |site| site.http3_connections() == CLIENTS);
        site.run_until("their ends", |site| site.http3_connections() == 0);
        let closed = site.counted();

        let upload = |_| {
            let head = "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
            site.connect([head.as_bytes(), &[b'x'; 16_384]].concat(), ReadRate::Unlimited)
        };
        let peers = (0..48).map(upload).collect();
        let end = site.network.elapsed() + Duration::from_secs(1);
        site.run_until("uploads", |site| site.network.elapsed() >= end);
        Uploads { site, peers, closed }
    }

    fn are_open(&self) -> bool {
        self.peers.iter().all(|peer| self.site.network.state(*peer) == ConnectionState::Open)
    }
}

#[test]
fn closed_http3_connections_are_removed_before_others_are_closed() {
    let unlimited = Uploads::run(CONNECTIONS_BYTES_MAX);
    assert!(unlimited.are_open());
    let open = unlimited.site.counted() - unlimited.closed;

    // More would be freed if connections had to be closed.
    let limit = open * 100 / 85;
    let closed = unlimited.closed * 100 / limit;
    assert!((16..24).contains(&closed), "the closed ones have {closed} % of the limit, too few or too many");

    let mut limited = Uploads::run(limit);
    assert!(limited.are_open(), "closing others was not necessary");
    let counted = limited.site.counted();
    assert!(
        (open..=limit / 8 * 7).contains(&counted),
        "{counted} bytes count for {open} of open connections"
    );
    limited.site.check_service();
}

#[test]
fn http3_connections_run_one_at_a_time_while_memory_is_scarce() {
    const CLIENTS: usize = 3;
    let mut site = Site::start(CONNECTIONS_BYTES_MAX);
    (0..CLIENTS).for_each(|_| site.connect_quic([], Habits::GOOD, Path::PERFECT));
    site.run_until("connections", |site| {
        let has_connected = site.http3_connections() == CLIENTS;
        has_connected && !site.worker.http3.as_ref().unwrap().is_busy()
    });

    let Worker { http3, events, cx, .. } = &mut site.worker;
    let http3 = http3.as_mut().unwrap();
    http3.begin_drain(cx);
    cx.memory.change(0, u32::try_from(CONNECTIONS_BYTES_MAX).unwrap());
    assert!(cx.memory.is_over());
    for left in (0..CLIENTS).rev() {
        assert!(http3.is_busy());
        http3.run(events, cx);
        assert_eq!(http3.is_busy(), left > 0, "{left} connections should have to wait");
    }
}
