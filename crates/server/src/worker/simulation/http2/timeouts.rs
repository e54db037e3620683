//! Timeouts and GOAWAY of HTTP/2 connections, measured with the virtual clock on one peer at a time.

use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, PeerId, ReadRate, Simulated, SimulatedListener,
};
use cannery_testkit::http2::{
    ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, SETTINGS, data,
    field_block, frame, headers, settings, window_update,
};
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::super::scenario::Scenario;
use super::super::site::Releases;
use super::super::{ITERATIONS_MAX, plan};
use super::script::GOAWAY_PING;
use crate::config::Timeouts;
use crate::connection::LINGER;
use crate::content::Current;
use crate::observe::{Counters, Observer};
use crate::worker::Worker;

/// The body of `/large`.
const LARGE_BYTES: usize = 80_000;

/// Tolerance of measured times. Deadlines are checked once per second, and the last bytes may be in flight
/// for up to an iteration.
const SLACK: Duration = Duration::from_secs(3);

/// Frames that a peer received.
#[derive(Debug, Default)]
struct Received {
    responses: usize,
    ends: usize,
    body_bytes: usize,
    /// The last stream ID and the error code of each GOAWAY.
    goaways: Vec<(u32, u32)>,
}

impl Received {
    fn of(network: &Network, peer: PeerId) -> Received {
        let bytes = network.received(peer);
        let mut rest = bytes.as_slice();
        let mut received = Received::default();

        while let Some(frame) = Frame::parse(&mut rest) {
            match frame.kind {
                HEADERS => received.responses += 1,
                DATA => received.body_bytes += frame.payload.len(),
                GOAWAY => received.goaways.push((frame.number(0), frame.number(4))),
                _ => {}
            }
            received.ends += usize::from(matches!(frame.kind, HEADERS | DATA) && frame.has(END_STREAM));
        }
        received
    }
}

/// Returns the preface and SETTINGS with an initial window of `window` bytes.
fn preface(window: u32) -> Vec<u8> {
    [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, window)])].concat()
}

fn request(stream: u32, method: &str, target: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "http"), (":path", target), (":authority", "h")];
    let flags = if method == "GET" { END_STREAM } else { 0 };
    headers(stream, flags, &field_block(&fields))
}

/// Sets up a network with one peer, a worker, and the slot from which the worker takes its release.
fn set_up(actions: Vec<Action>) -> (Network, PeerId, Worker<Simulated>, Arc<Current>) {
    let network = Network::new(12);
    let peer = network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 200_000);
    let (plan, current) = plan(SimulatedListener);
    (network.clone(), peer, Worker::new(Simulated::new(network), plan).unwrap(), current)
}

/// Runs a worker until both it and the network are idle. Returns the time at which it dropped its
/// connection.
fn finish(network: &Network, worker: &mut Worker<Simulated>) -> Duration {
    let mut ended = None;
    for _ in 0..ITERATIONS_MAX {
        let was_idle = worker.is_idle();
        worker.run_iteration(None);
        if worker.is_idle() && !was_idle {
            ended = Some(network.elapsed());
        }
        if let (true, Some(ended)) = (network.is_idle() && worker.is_idle(), ended) {
            return ended;
        }
    }
    panic!("not idle after {:?}: {network:?}", network.elapsed());
}

fn run_until(network: &Network, worker: &mut Worker<Simulated>, until: Duration) {
    while network.elapsed() < until {
        worker.run_iteration(None);
    }
}

#[test]
fn window_that_never_opens_times_out() {
    let timeout = Timeouts::default().send;
    let mut actions = vec![Action::Send([preface(1000), request(1, "GET", "/large")].concat())];
    // Frames that arrive in pieces must not extend the timeout.
    for _ in 0..28 {
        let [begun, rest] = [&[0, 0, 2][..], &[0xbe, 0, 0, 0, 0, 0, b'x', b'x']].map(<[u8]>::to_vec);
        let pause = || Action::Pause(Duration::from_secs(1));
        actions.extend([Action::Send(begun), pause(), Action::Send(rest), pause()]);
    }
    actions.push(Action::AwaitClose);
    let (network, peer, mut worker, _) = set_up(actions);
    let took = finish(&network, &mut worker);
    let received = Received::of(&network, peer);
    assert_eq!((received.responses, received.ends, received.body_bytes), (1, 0, 1000));
    // The first 1000 bytes count as progress in the first period, so the connection may last for two.
    assert!(took >= timeout && took <= 2 * timeout + SLACK, "{took:?}");
}

#[test]
fn streams_survive_a_full_send_buffer() {
    let streams: Vec<u8> = (0..60).flat_map(|number| request(2 * number + 1, "GET", "/middle")).collect();
    let actions = vec![
        Action::Send([preface(1 << 20), window_update(0, 1 << 24), streams].concat()),
        Action::AwaitClose,
    ];
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let received = receive_slowly(actions, rate);
    assert_eq!((received.responses, received.ends), (60, 60));
}

#[test]
fn send_timeout_allows_for_bytes_in_flight() {
    // A peer can open the window only after receiving these bytes, which takes minutes.
    let actions =
        vec![Action::Send([preface(20_000), request(1, "GET", "/large")].concat()), Action::AwaitClose];
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let network = Network::new(15);
    let peer = network.connect(Duration::ZERO, actions, ReadRate::BytesPerSecond(rate), 200_000);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan(SimulatedListener).0).unwrap();
    run_until(&network, &mut worker, Duration::from_secs(20_000 / rate as u64));
    assert_eq!(network.state(peer), ConnectionState::Open, "{:?}", network.elapsed());
    finish(&network, &mut worker);
    assert_eq!(Received::of(&network, peer).body_bytes, 20_000);
}

/// Returns the frames that a peer receives if it reads `rate` bytes per second.
fn receive_slowly(actions: Vec<Action>, rate: usize) -> Received {
    let network = Network::new(15);
    let peer = network.connect(Duration::ZERO, actions, ReadRate::BytesPerSecond(rate), 50_000);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan(SimulatedListener).0).unwrap();
    finish(&network, &mut worker);
    Received::of(&network, peer)
}

#[test]
fn content_that_never_ends_times_out() {
    let timeout = Timeouts::default().head;
    let mut actions = vec![Action::Send([preface(1000), request(1, "POST", "/small")].concat())];
    // Bytes that trickle in must not extend the timeout.
    for _ in 0..8 {
        actions.extend([Action::Pause(Duration::from_secs(1)), Action::Send(data(1, 0, b"x"))]);
    }
    actions.extend([Action::AwaitClose, Action::ShutdownWrite]);
    let (network, peer, mut worker, _) = set_up(actions);
    let took = finish(&network, &mut worker);
    let received = Received::of(&network, peer);
    assert_eq!((received.responses, received.ends), (1, 1));
    assert!(took >= timeout && took <= timeout + SLACK, "{took:?}");
}

#[test]
fn idle_client_receives_goaway_if_a_request_crosses() {
    let timeout = Timeouts::default().idle;
    let late = [request(3, "GET", "/small"), frame(PING, 0, 0, b"too late")].concat();
    let begun =
        || vec![Action::Send([preface(1000), request(1, "GET", "/small")].concat()), Action::AwaitClose];
    let closes = [begun(), vec![Action::Send(late.clone()), Action::ShutdownWrite]].concat();
    let stays = [begun(), vec![Action::Send(late)]].concat();

    for (actions, linger) in [(closes, Duration::ZERO), (stays, LINGER)] {
        let network = Network::new(14);
        let peer = network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 200_000);
        let counters = Arc::new(Counters::default());
        let observer = Observer::new(Some(Arc::clone(&counters)), None);
        let plan = plan(SimulatedListener).0.with_observer(observer);
        let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();

        let took = finish(&network, &mut worker);
        assert_eq!((counters.closed.get(), counters.timed_out.get()), (1, 1));
        assert_eq!(network.state(peer), ConnectionState::Closed, "a late request must not cause a reset");

        let received = Received::of(&network, peer);
        assert_eq!((received.responses, received.ends, received.goaways), (1, 1, vec![(1, 0)]));
        let least = timeout + linger;
        assert!(took >= least && took <= least + SLACK, "{took:?}");
    }
}

#[test]
fn client_of_a_replaced_release_receives_goaway() {
    let actions = vec![
        Action::Send([preface(1000), request(1, "GET", "/large")].concat()),
        Action::Await(GOAWAY_PING.to_vec()),
        Action::Send(frame(PING, ACK, 0, GOAWAY_PING)),
        Action::Send([window_update(1, 100_000), window_update(0, 100_000)].concat()),
        Action::AwaitClose,
    ];
    let (network, peer, mut worker, current) = set_up(actions);
    run_until(&network, &mut worker, Duration::from_secs(5));
    let replaced = current.get();
    current.replace(Releases::build().second);
    network.wake();
    run_until(&network, &mut worker, Duration::from_secs(13));
    assert_eq!(Received::of(&network, peer).goaways, [], "GOAWAY follows after ten seconds");
    finish(&network, &mut worker);
    let received = Received::of(&network, peer);
    assert_eq!((received.ends, received.body_bytes), (1, LARGE_BYTES));
    assert_eq!(received.goaways, [(0x7fff_ffff, 0), (1, 0)]);
    assert_eq!(Arc::strong_count(&replaced), 1, "the replaced release is still referenced");
}

#[test]
fn drain_answers_open_streams_then_closes() {
    let actions = vec![
        Action::Send([preface(1000), request(1, "GET", "/large")].concat()),
        Action::Await(GOAWAY_PING.to_vec()),
        // The peer sent this request before it received the GOAWAY.
        Action::Send([request(3, "GET", "/small"), frame(PING, ACK, 0, GOAWAY_PING)].concat()),
        // It sent this one after acknowledging the GOAWAY, so the server ignores it.
        Action::Send(request(5, "GET", "/small")),
        Action::Send([window_update(1, 100_000), window_update(0, 100_000)].concat()),
        Action::AwaitClose,
    ];
    let (network, peer, mut worker, _) = set_up(actions);
    run_until(&network, &mut worker, Duration::from_secs(5));
    let end = worker.begin_drain();
    finish(&network, &mut worker);
    let received = Received::of(&network, peer);
    assert_eq!((received.responses, received.ends, received.body_bytes), (2, 2, LARGE_BYTES + 13));
    assert_eq!(received.goaways, [(0x7fff_ffff, 0), (3, 0)]);
    // The end of the drain is the only limit because the peer never closes its side.
    assert!(worker.now() <= end + SLACK, "{:?}", worker.now() - end);
}

#[test]
fn silent_client_receives_settings_first() {
    let network = Network::new(13);
    let peer = network.connect(Duration::ZERO, vec![Action::AwaitClose], ReadRate::Unlimited, 10_000);
    let scenario = Scenario {
        proxied: false,
        http1: false,
        connections_max: None,
        iteration_bytes_max: 10_000,
        release_at: None,
        stop_at: None,
    };
    scenario.run(&network, &Releases::build()).unwrap();
    let received = network.received(peer);
    let first = Frame::parse(&mut received.as_slice()).map(|frame| frame.kind);
    assert_eq!(first, Some(SETTINGS), "{}", received.escape_ascii());
}

#[test]
fn goaway_is_complete_with_a_tiny_send_budget() {
    let network = Network::new(5);
    let actions = vec![
        Action::Send([PREFACE, &settings(&[])].concat()),
        Action::Await(GOAWAY_PING.to_vec()),
        Action::Send(frame(PING, ACK, 0, GOAWAY_PING)),
        Action::AwaitClose,
    ];
    let peer = network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 10_000);
    let plan = plan(SimulatedListener).0.with_iteration_bytes_max(10);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    run_until(&network, &mut worker, Duration::from_secs(5));

    let end = worker.begin_drain();
    while !network.is_idle() || network.state(peer) == ConnectionState::Open {
        worker.run_iteration(Some(end));
        assert!(worker.now() < end, "{}", network.received(peer).escape_ascii());
    }
    // The last stream ID and NO_ERROR (RFC 9113 §6.8).
    let goaway = frame(GOAWAY, 0, 0, &[0; 8]);
    assert!(network.received(peer).ends_with(&goaway), "{}", network.received(peer).escape_ascii());
}
