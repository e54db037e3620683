//! How long peers of HTTP/2 are waited for, and how they are told to go: one peer at a time, and the made-up clock tells.

use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, PeerId, ReadRate, Simulated, SimulatedListener,
};

use super::super::course::Plot;
use super::super::site::Releases;
use super::super::{TURNS_MAX, plan};
use super::frames::{
    ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, SETTINGS, block,
    frame, headers, settings, window_update,
};
use super::script::GOING;
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use crate::config::Timeouts;
use crate::connection::LINGER;
use crate::observe::{Counters, Observer};
use crate::reload::Current;
use crate::worker::Worker;

/// The body of `/large`.
const LARGE_BYTES: usize = 80_000;

/// Deadlines are looked at once a second, and short of a turn a peer's last bytes may be under way.
const SLACK: Duration = Duration::from_secs(3);

/// What has come to a peer.
#[derive(Debug, Default)]
struct Heard {
    answers: usize,
    ends: usize,
    body_bytes: usize,
    /// The last stream and the error of each GOAWAY.
    goes: Vec<(u32, u32)>,
}

impl Heard {
    fn of(network: &Network, peer: PeerId) -> Heard {
        let received = network.received(peer);
        let (mut rest, mut heard) = (received.as_slice(), Heard::default());
        while let Some(frame) = Frame::take(&mut rest) {
            match frame.kind {
                HEADERS => heard.answers += 1,
                DATA => heard.body_bytes += frame.payload.len(),
                GOAWAY => heard.goes.extend(frame.number(0).zip(frame.number(4))),
                _ => {}
            }
            heard.ends += usize::from(matches!(frame.kind, HEADERS | DATA) && frame.has(END_STREAM));
        }
        heard
    }
}

/// The preface, and windows of so many bytes.
fn begin(window: u32) -> Vec<u8> {
    [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, window)])].concat()
}

fn ask(stream: u32, method: &str, target: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "http"), (":path", target), (":authority", "h")];
    headers(stream, method == "GET", &block(&fields), None)
}

/// A worker, the release that it serves, and one peer that does these things.
fn stage(acts: Vec<Action>) -> (Network, PeerId, Worker<Simulated>, Arc<Current>) {
    let network = Network::new(12);
    let peer = network.connect(Duration::ZERO, acts, ReadRate::Unlimited, 200_000);
    let (plan, current) = plan(SimulatedListener);
    (network.clone(), peer, Worker::new(Simulated::new(network), plan).unwrap(), current)
}

/// Lets a worker go on until all is over; tells when it let go of the connection.
fn finish(network: &Network, worker: &mut Worker<Simulated>) -> Duration {
    let mut ended = None;
    for _ in 0..TURNS_MAX {
        let was_idle = worker.is_idle();
        worker.run_iteration(None);
        if worker.is_idle() && !was_idle {
            ended = Some(network.elapsed());
        }
        if let (true, Some(ended)) = (network.is_idle() && worker.is_idle(), ended) {
            return ended;
        }
    }
    panic!("no rest after {:?}: {network:?}", network.elapsed());
}

fn pass(network: &Network, worker: &mut Worker<Simulated>, until: Duration) {
    while network.elapsed() < until {
        worker.run_iteration(None);
    }
}

#[test]
fn a_window_that_never_opens_is_not_waited_for() {
    let patience = Timeouts::default().send;
    let mut acts = vec![Action::Send([begin(1000), ask(1, "GET", "/large")].concat())];
    // Nor do frames that come in pieces put it off.
    for _ in 0..28 {
        let [begun, rest] = [&[0, 0, 2][..], &[0xbe, 0, 0, 0, 0, 0, b'x', b'x']].map(<[u8]>::to_vec);
        let pause = || Action::Pause(Duration::from_secs(1));
        acts.extend([Action::Send(begun), pause(), Action::Send(rest), pause()]);
    }
    acts.push(Action::AwaitClose);
    let (network, peer, mut worker, _) = stage(acts);
    let took = finish(&network, &mut worker);
    let heard = Heard::of(&network, peer);
    assert_eq!((heard.answers, heard.ends, heard.body_bytes), (1, 0, 1000));
    // Something was taken in the first span: what counts is how much.
    assert!(took >= patience && took <= 2 * patience + SLACK, "{took:?}");
}

#[test]
fn streams_that_wait_for_a_full_send_buffer_are_not_cut() {
    let streams: Vec<u8> = (0..60).flat_map(|number| ask(2 * number + 1, "GET", "/middle")).collect();
    let acts =
        vec![Action::Send([begin(1 << 20), window_update(0, 1 << 24), streams].concat()), Action::AwaitClose];
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let heard = heard_by_slow(acts, rate);
    assert_eq!((heard.answers, heard.ends), (60, 60));
}

#[test]
fn a_window_is_waited_for_while_what_filled_it_arrives() {
    // The window is opened once all that filled it has come, which takes minutes.
    let acts = vec![Action::Send([begin(20_000), ask(1, "GET", "/large")].concat()), Action::AwaitClose];
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let network = Network::new(15);
    let peer = network.connect(Duration::ZERO, acts, ReadRate::BytesPerSecond(rate), 200_000);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan(SimulatedListener).0).unwrap();
    pass(&network, &mut worker, Duration::from_secs(20_000 / rate as u64));
    assert_eq!(network.state(peer), ConnectionState::Open, "{:?}", network.elapsed());
    finish(&network, &mut worker);
    assert_eq!(Heard::of(&network, peer).body_bytes, 20_000);
}

/// What a peer hears that takes `rate` bytes a second.
fn heard_by_slow(acts: Vec<Action>, rate: usize) -> Heard {
    let network = Network::new(15);
    let peer = network.connect(Duration::ZERO, acts, ReadRate::BytesPerSecond(rate), 50_000);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan(SimulatedListener).0).unwrap();
    finish(&network, &mut worker);
    Heard::of(&network, peer)
}

#[test]
fn content_that_never_ends_is_not_waited_for() {
    let patience = Timeouts::default().head;
    let mut acts = vec![Action::Send([begin(1000), ask(1, "POST", "/small")].concat())];
    // Nor do bytes that trickle in put it off.
    for _ in 0..8 {
        acts.extend([Action::Pause(Duration::from_secs(1)), Action::Send(frame(DATA, 0, 1, b"x"))]);
    }
    acts.extend([Action::AwaitClose, Action::ShutdownWrite]);
    let (network, peer, mut worker, _) = stage(acts);
    let took = finish(&network, &mut worker);
    let heard = Heard::of(&network, peer);
    assert_eq!((heard.answers, heard.ends), (1, 1));
    assert!(took >= patience && took <= patience + SLACK, "{took:?}");
}

#[test]
fn whoever_is_idle_hears_the_end_also_if_he_asks_at_that_moment() {
    let patience = Timeouts::default().idle;
    let late = [ask(3, "GET", "/small"), frame(PING, 0, 0, b"too late")].concat();
    let begun = || vec![Action::Send([begin(1000), ask(1, "GET", "/small")].concat()), Action::AwaitClose];
    let goes = [begun(), vec![Action::Send(late.clone()), Action::ShutdownWrite]].concat();
    let stays = [begun(), vec![Action::Send(late)]].concat();
    for (acts, linger) in [(goes, Duration::ZERO), (stays, LINGER)] {
        let network = Network::new(14);
        let peer = network.connect(Duration::ZERO, acts, ReadRate::Unlimited, 200_000);
        let counters = Arc::new(Counters::default());
        let observer = Observer::new(Some(Arc::clone(&counters)), None);
        let plan = plan(SimulatedListener).0.with_observer(observer);
        let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
        let took = finish(&network, &mut worker);
        assert_eq!((counters.closed.get(), counters.timed_out.get()), (1, 1));
        assert_eq!(network.state(peer), ConnectionState::Closed, "what came too late broke nothing");
        let heard = Heard::of(&network, peer);
        assert_eq!((heard.answers, heard.ends, heard.goes), (1, 1, vec![(1, 0)]));
        let least = patience + linger;
        assert!(took >= least && took <= least + SLACK, "{took:?}");
    }
}

#[test]
fn whoever_keeps_an_old_release_is_told_to_go_and_is_served_to_the_end() {
    let acts = vec![
        Action::Send([begin(1000), ask(1, "GET", "/large")].concat()),
        Action::Await(GOING.to_vec()),
        Action::Send(frame(PING, ACK, 0, GOING)),
        Action::Send([window_update(1, 100_000), window_update(0, 100_000)].concat()),
        Action::AwaitClose,
    ];
    let (network, peer, mut worker, current) = stage(acts);
    pass(&network, &mut worker, Duration::from_secs(5));
    let replaced = current.get();
    current.replace(Releases::make().second);
    network.wake();
    pass(&network, &mut worker, Duration::from_secs(13));
    assert_eq!(Heard::of(&network, peer).goes, [], "ten seconds are given");
    finish(&network, &mut worker);
    let heard = Heard::of(&network, peer);
    assert_eq!((heard.ends, heard.body_bytes), (1, LARGE_BYTES));
    assert_eq!(heard.goes, [(0x7fff_ffff, 0), (1, 0)]);
    assert_eq!(Arc::strong_count(&replaced), 1, "nobody else holds it");
}

#[test]
fn a_server_that_stops_answers_what_was_asked_and_then_ends() {
    let acts = vec![
        Action::Send([begin(1000), ask(1, "GET", "/large")].concat()),
        Action::Await(GOING.to_vec()),
        // This was under way.
        Action::Send([ask(3, "GET", "/small"), frame(PING, ACK, 0, GOING)].concat()),
        // And this was asked by somebody who knew.
        Action::Send(ask(5, "GET", "/small")),
        Action::Send([window_update(1, 100_000), window_update(0, 100_000)].concat()),
        Action::AwaitClose,
    ];
    let (network, peer, mut worker, _) = stage(acts);
    pass(&network, &mut worker, Duration::from_secs(5));
    let end = worker.begin_drain();
    finish(&network, &mut worker);
    let heard = Heard::of(&network, peer);
    assert_eq!((heard.answers, heard.ends, heard.body_bytes), (2, 2, LARGE_BYTES + 13));
    assert_eq!(heard.goes, [(0x7fff_ffff, 0), (3, 0)]);
    // Nobody but the peer, which never ends its own side, is waited for.
    assert!(worker.now() <= end + SLACK, "{:?}", worker.now() - end);
}

#[test]
fn the_first_word_to_who_never_says_one_is_settings() {
    let network = Network::new(13);
    let peer = network.connect(Duration::ZERO, vec![Action::AwaitClose], ReadRate::Unlimited, 10_000);
    let plot = Plot {
        proxied: false,
        http1: false,
        connections_max: None,
        turn_bytes_max: 10_000,
        release_at: None,
        stop_at: None,
    };
    plot.run(&network, &Releases::make()).unwrap();
    let received = network.received(peer);
    let first = Frame::take(&mut received.as_slice()).map(|frame| frame.kind);
    assert_eq!(first, Some(SETTINGS), "{}", received.escape_ascii());
}
