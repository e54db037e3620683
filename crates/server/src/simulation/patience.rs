//! How long peers are waited for, and how their answers leave: one peer at a time, and the made-up clock tells.

use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, PeerId, ReadRate, Simulated, SimulatedListener,
};
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::{TURNS_MAX, plan, worker};
use crate::config::Timeouts;
use crate::connection::DRAIN_GRACE;
use crate::worker::Worker;

/// The body of `/large`.
const LARGE_BYTES: usize = 80_000;

/// Deadlines are looked at once a second, and short of a turn a peer's last bytes may be under way.
const SLACK: Duration = Duration::from_secs(3);

/// Lets one peer do these things until its connection is over and all is quiet.
fn run(seed: u64, acts: Vec<Action>, appetite: ReadRate, room: usize) -> (Network, PeerId) {
    let network = Network::new(seed);
    let peer = network.connect(Duration::ZERO, acts, appetite, room);
    let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
    for _ in 0..TURNS_MAX {
        worker.run_iteration(None);
        if network.is_idle() && worker.is_idle() {
            return (network, peer);
        }
    }
    panic!("no rest after {:?}: {network:?}", network.elapsed());
}

fn ask(target: &str) -> Action {
    Action::Send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes())
}

/// A head that never ends, a byte a second.
fn trickle(begin: &str) -> Vec<Action> {
    let mut acts = vec![Action::Send(begin.as_bytes().to_vec())];
    for _ in 0..200 {
        acts.extend([Action::Pause(Duration::from_secs(1)), Action::Send(b"x".to_vec())]);
    }
    acts
}

#[test]
fn bytes_that_trickle_in_do_not_put_off_the_end_of_a_slow_head() {
    let patience = Timeouts::default().head;
    let began = "GET /small HTTP/1.1\r\nHost: h\r\nX: ";
    // Whoever refuses goes on listening for a moment: the peer stops as soon as it has been told.
    let mut acts = trickle(began);
    acts.truncate(2 * usize::try_from(patience.as_secs()).unwrap());
    acts.push(Action::AwaitClose);
    acts.push(Action::ShutdownWrite);
    let (network, peer) = run(1, acts, ReadRate::Unlimited, 10_000);
    let received = network.received(peer);
    assert!(
        received.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"),
        "{}",
        String::from_utf8_lossy(&received)
    );
    let page: Vec<u8> = b"first 408 identity\n".iter().copied().cycle().take(60_000).collect();
    assert!(
        received.ends_with(&page),
        "the page is larger than what the socket takes at once, and comes whole"
    );
    assert!(
        network.elapsed() >= patience && network.elapsed() <= patience + SLACK,
        "{:?}",
        network.elapsed()
    );
}

#[test]
fn an_idle_connection_is_ended_in_good_order() {
    let patience = Timeouts::default().idle;
    let request = Action::Send(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n".to_vec());
    let (network, peer) = run(2, vec![request, Action::AwaitClose], ReadRate::Unlimited, 10_000);
    assert_eq!(network.state(peer), ConnectionState::Closed);
    assert!(
        network.elapsed() >= patience && network.elapsed() <= patience + SLACK,
        "{:?}",
        network.elapsed()
    );
}

#[test]
fn a_reader_that_makes_progress_is_served_however_long_it_takes() {
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let (network, peer) =
        run(3, vec![ask("/large"), Action::AwaitClose], ReadRate::BytesPerSecond(rate), 5000);
    assert_eq!(network.state(peer), ConnectionState::Closed);
    assert!(network.received(peer).len() > LARGE_BYTES);
    let took = Duration::from_secs((LARGE_BYTES / rate) as u64);
    assert!(network.elapsed() >= took && took > 10 * Timeouts::default().send, "{:?}", network.elapsed());
}

#[test]
fn pipelined_answers_behind_a_full_send_buffer_are_not_cut() {
    // A small answer and a large one: what the socket took of earlier answers is unacknowledged for minutes.
    for (target, requests) in [("/small", 400), ("/large", 3)] {
        let pipeline = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(requests);
        let acts = vec![Action::Send(pipeline.into_bytes()), ask(target), Action::AwaitClose];
        let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
        let (network, peer) = run(6, acts, ReadRate::BytesPerSecond(rate), 50_000);
        assert_eq!(network.state(peer), ConnectionState::Closed, "{target}");
        let received = network.received(peer);
        let answers = received.windows(9).filter(|bytes| bytes == b"HTTP/1.1 ").count();
        assert_eq!(answers, requests + 1, "{target} after {:?}", network.elapsed());
    }
}

#[test]
fn a_reader_below_the_least_rate_is_not_waited_for() {
    let rate = usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap() / 2;
    for appetite in [ReadRate::BytesPerSecond(rate), ReadRate::Zero] {
        let (network, peer) = run(4, vec![ask("/large"), Action::AwaitClose], appetite, 5000);
        assert!(network.received(peer).len() < LARGE_BYTES, "{appetite:?}");
        assert!(network.elapsed() <= 3 * Timeouts::default().send, "{appetite:?}: {:?}", network.elapsed());
    }
}

#[test]
fn answers_to_pipelined_requests_leave_together() {
    const REQUESTS: usize = 100;
    for seed in 0..50 {
        let requests = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS);
        let acts = vec![Action::Send(requests.into_bytes()), Action::ShutdownWrite];
        let (network, peer) = run(seed, acts, ReadRate::Unlimited, 1_000_000);
        let answers = network.received(peer).windows(9).filter(|bytes| bytes == b"HTTP/1.1 ").count();
        assert_eq!(answers, REQUESTS);
        // The requests arrive in a few pieces, and some sends are cut short.
        assert!(network.send_calls(peer) <= REQUESTS / 3, "{} sends, seed {seed}", network.send_calls(peer));
    }
}

#[test]
fn a_stop_gives_idle_connections_time_for_a_request_under_way() {
    let request = b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    let (stop, grace) = (Duration::from_secs(5), DRAIN_GRACE);
    // The request arrives when the order to stop has come already; or none does.
    for arrives_after in [Some(grace / 2), None] {
        let network = Network::new(8);
        let mut acts = vec![Action::Send(request.clone())];
        acts.extend(arrives_after.map(|after| Action::Pause(stop + after)));
        acts.extend(arrives_after.map(|_| Action::Send(request.clone())));
        acts.push(Action::AwaitClose);
        let peer = network.connect(Duration::ZERO, acts, ReadRate::Unlimited, 10_000);
        let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
        while network.elapsed() < stop {
            worker.run_iteration(None);
        }
        let end = worker.begin_drain();
        while network.state(peer) == ConnectionState::Open {
            worker.run_iteration(Some(end));
            assert!(worker.now() < end, "{network:?}");
        }
        assert_eq!(network.state(peer), ConnectionState::Closed);
        let received = String::from_utf8(network.received(peer)).unwrap();
        let is_asked_again = arrives_after.is_some();
        assert_eq!(received.matches("200 OK").count(), 1 + usize::from(is_asked_again), "{received}");
        assert_eq!(received.matches("Connection: close").count(), usize::from(is_asked_again), "{received}");
        assert!(network.elapsed() <= stop + grace + SLACK, "{:?}", network.elapsed());
    }
}

#[test]
fn who_is_to_go_is_told_all_of_it_however_little_a_turn_sends() {
    // HTTP/2: an empty SETTINGS; GOAWAY behind the answer to our PING (RFC 9113 §6.8).
    const BEGINS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const KNOWS: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0cannery!";
    const GOES: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let network = Network::new(5);
    let acts = vec![
        Action::Send(BEGINS.to_vec()),
        Action::Await(b"cannery!".to_vec()),
        Action::Send(KNOWS.to_vec()),
        Action::AwaitClose,
    ];
    let peer = network.connect(Duration::ZERO, acts, ReadRate::Unlimited, 10_000);
    let plan = plan(SimulatedListener).0.with_iteration_bytes_max(10);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    while network.elapsed() < Duration::from_secs(5) {
        worker.run_iteration(None);
    }
    let end = worker.begin_drain();
    while !network.is_idle() || network.state(peer) == ConnectionState::Open {
        worker.run_iteration(Some(end));
        assert!(worker.now() < end, "{}", network.received(peer).escape_ascii());
    }
    assert!(network.received(peer).ends_with(GOES), "{}", network.received(peer).escape_ascii());
}
