//! Timeouts and batched sends of HTTP/1 connections, measured on one peer at a time using the virtual
//! clock.

use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, PeerId, ReadRate, Simulated, SimulatedListener,
};
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::{ITERATIONS_MAX, worker};
use crate::config::Timeouts;
use crate::context::DRAIN_GRACE;

/// The body of `/large`.
const LARGE_BYTES: usize = 80_000;

/// Tolerance of measured times. Deadlines are checked once per second, and the last bytes may be in flight
/// for up to an iteration.
const SLACK: Duration = Duration::from_secs(3);

/// Runs the actions of one peer until its connection has ended and the network is idle.
fn run(seed: u64, actions: Vec<Action>, read_rate: ReadRate, capacity: usize) -> (Network, PeerId) {
    let network = Network::new(seed);
    let peer = network.connect(Duration::ZERO, actions, read_rate, capacity);
    let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
    for _ in 0..ITERATIONS_MAX {
        worker.run_iteration(None);
        if network.is_idle() && worker.is_idle() {
            return (network, peer);
        }
    }
    panic!("not idle after {:?}: {network:?}", network.elapsed());
}

fn request(target: &str) -> Action {
    Action::Send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes())
}

/// Returns actions that send `begin`, followed by one byte per second.
fn trickle(begin: &str) -> Vec<Action> {
    let mut actions = vec![Action::Send(begin.as_bytes().to_vec())];
    for _ in 0..200 {
        actions.extend([Action::Pause(Duration::from_secs(1)), Action::Send(b"x".to_vec())]);
    }
    actions
}

#[test]
fn trickled_bytes_do_not_extend_the_header_timeout() {
    let timeout = Timeouts::default().head;
    let began = "GET /small HTTP/1.1\r\nHost: h\r\nX: ";
    // While the server lingers after its response, the peer closes as soon as it has received it, so
    // lingering adds no time.
    let mut actions = trickle(began);
    actions.truncate(2 * usize::try_from(timeout.as_secs()).unwrap());
    actions.push(Action::AwaitClose);
    actions.push(Action::ShutdownWrite);
    let (network, peer) = run(1, actions, ReadRate::Unlimited, 10_000);
    let received = network.received(peer);
    assert!(
        received.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"),
        "{}",
        String::from_utf8_lossy(&received)
    );
    let page: Vec<u8> = b"first 408 identity\n".iter().copied().cycle().take(60_000).collect();
    assert!(received.ends_with(&page), "an error page larger than the send buffer must arrive completely");
    assert!(network.elapsed() >= timeout && network.elapsed() <= timeout + SLACK, "{:?}", network.elapsed());
}

#[test]
fn idle_connection_is_closed_gracefully() {
    let timeout = Timeouts::default().idle;
    let request = Action::Send(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n".to_vec());
    let (network, peer) = run(2, vec![request, Action::AwaitClose], ReadRate::Unlimited, 10_000);
    assert_eq!(network.state(peer), ConnectionState::Closed);
    assert!(network.elapsed() >= timeout && network.elapsed() <= timeout + SLACK, "{:?}", network.elapsed());
}

#[test]
fn slow_reader_that_progresses_is_not_timed_out() {
    let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
    let (network, peer) =
        run(3, vec![request("/large"), Action::AwaitClose], ReadRate::BytesPerSecond(rate), 5000);
    assert_eq!(network.state(peer), ConnectionState::Closed);
    assert!(network.received(peer).len() > LARGE_BYTES);
    let took = Duration::from_secs((LARGE_BYTES / rate) as u64);
    assert!(network.elapsed() >= took && took > 10 * Timeouts::default().send, "{:?}", network.elapsed());
}

#[test]
fn pipelined_responses_survive_a_full_send_buffer() {
    // With small and with large responses: earlier ones stay unacknowledged in the send buffer for minutes.
    for (target, requests) in [("/small", 400), ("/large", 3)] {
        let pipeline = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(requests);
        let actions = vec![Action::Send(pipeline.into_bytes()), request(target), Action::AwaitClose];
        let rate = 2 * usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap();
        let (network, peer) = run(6, actions, ReadRate::BytesPerSecond(rate), 50_000);
        assert_eq!(network.state(peer), ConnectionState::Closed, "{target}");
        let received = network.received(peer);
        let responses = received.windows(9).filter(|bytes| bytes == b"HTTP/1.1 ").count();
        assert_eq!(responses, requests + 1, "{target} after {:?}", network.elapsed());
    }
}

#[test]
fn reader_below_the_minimum_rate_is_closed() {
    let rate = usize::try_from(SEND_BYTES_PER_SECOND_MIN).unwrap() / 2;
    for read_rate in [ReadRate::BytesPerSecond(rate), ReadRate::Zero] {
        let (network, peer) = run(4, vec![request("/large"), Action::AwaitClose], read_rate, 5000);
        assert!(network.received(peer).len() < LARGE_BYTES, "{read_rate:?}");
        assert!(network.elapsed() <= 3 * Timeouts::default().send, "{read_rate:?}: {:?}", network.elapsed());
    }
}

#[test]
fn pipelined_responses_are_sent_together() {
    const REQUESTS: usize = 100;
    for seed in 0..50 {
        let requests = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS);
        let actions = vec![Action::Send(requests.into_bytes()), Action::ShutdownWrite];
        let (network, peer) = run(seed, actions, ReadRate::Unlimited, 1_000_000);
        let responses = network.received(peer).windows(9).filter(|bytes| bytes == b"HTTP/1.1 ").count();
        assert_eq!(responses, REQUESTS);
        // The requests arrive in a few segments, and some sends are partial.
        assert!(network.send_calls(peer) <= REQUESTS / 3, "{} sends, seed {seed}", network.send_calls(peer));
    }
}

#[test]
fn drain_serves_a_request_in_flight() {
    let request = b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    let stop = Duration::from_secs(5);
    let grace = DRAIN_GRACE;
    // The second request, if any, arrives after the shutdown has begun.
    for arrives_after in [Some(grace / 2), None] {
        let network = Network::new(8);
        let mut actions = vec![Action::Send(request.clone())];
        actions.extend(arrives_after.map(|after| Action::Pause(stop + after)));
        actions.extend(arrives_after.map(|_| Action::Send(request.clone())));
        actions.push(Action::AwaitClose);
        let peer = network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 10_000);

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
        let has_second_request = arrives_after.is_some();
        assert_eq!(received.matches("200 OK").count(), 1 + usize::from(has_second_request), "{received}");
        assert_eq!(
            received.matches("Connection: close").count(),
            usize::from(has_second_request),
            "{received}"
        );
        assert!(network.elapsed() <= stop + grace + SLACK, "{:?}", network.elapsed());
    }
}
