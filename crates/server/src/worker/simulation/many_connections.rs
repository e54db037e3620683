//! Tests the limits of one loop iteration, and of memory, when many connections need attention at the
//! same time.
//!
//! Note that the tests of `accept` and of events need the kernel's loopback network, whose queue takes
//! connections even while the worker is idle.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, ReadRate, Simulated, SimulatedListener,
};
use cannery_eventloop::{Address, Claim, Waker};

use super::{ITERATIONS_MAX, plan, worker};
use crate::fault::{self, Place};
use crate::worker::{ACCEPTED_MAX, DefaultLoop, LATE_CONNECTIONS_MAX, Worker};

#[test]
fn iteration_accepts_a_limited_number() {
    const PEERS: usize = 2 * ACCEPTED_MAX + 1;
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("a local address") };
    let listener = claim.listen().unwrap();
    let mut worker = worker(DefaultLoop::new(Waker::new().unwrap(), None).unwrap(), listener);
    let _peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let counts = [(); 3].map(|()| {
        worker.run_iteration(None);
        worker.connections()
    });
    assert_eq!(counts, [ACCEPTED_MAX, 2 * ACCEPTED_MAX, PEERS]);
}

#[test]
fn iteration_times_out_a_limited_number() {
    const PEERS: usize = 5 * LATE_CONNECTIONS_MAX / 2;
    let network = Network::new(7);
    let peers: Vec<_> = (0..PEERS)
        .map(|_| network.connect(Duration::ZERO, vec![Action::AwaitClose], ReadRate::Unlimited, 100))
        .collect();
    let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
    let mut ended = 0;
    for _ in 0..ITERATIONS_MAX {
        worker.run_iteration(None);
        let ended_now = peers.iter().filter(|peer| network.state(**peer) != ConnectionState::Open).count();
        assert!(ended_now <= ended + LATE_CONNECTIONS_MAX, "{ended_now} after {ended}");
        ended = ended_now;
        if ended == PEERS {
            return;
        }
    }
    panic!("{ended} of {PEERS} ended: {network:?}");
}

/// The kernel reports each event once.
#[test]
fn panic_loses_no_event_of_other_connections() {
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("a local address") };
    let mut worker = worker(DefaultLoop::new(Waker::new().unwrap(), None).unwrap(), claim.listen().unwrap());
    let mut peers = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    while worker.connections() < peers.len() {
        worker.run_guarded_iteration(None);
    }

    for peer in &mut peers {
        peer.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    }
    fault::arm(Place::Event, 0);
    worker.run_guarded_iteration(None);
    assert!(fault::has_fired());
    worker.run_guarded_iteration(None);
    for peer in &mut peers[1..] {
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut start = [0; 12];
        peer.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
    }
}

#[test]
fn connections_with_most_memory_are_closed_first() {
    const MEMORY_MAX: u64 = 1 << 20;
    let network = Network::new(7);
    let request = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n";
    let pipeline = Action::Send(request.repeat(4000).into_bytes());
    // None of these peers reads, and the memory limit is too small for all of their responses.
    let greedy: Vec<_> = (0..40)
        .map(|_| {
            network.connect(Duration::ZERO, vec![pipeline.clone(), Action::AwaitClose], ReadRate::Zero, 5000)
        })
        .collect();
    let last = format!("{}GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", request.repeat(20));
    let slow = vec![Action::Send(last.into_bytes()), Action::AwaitClose];
    let slow = network.connect(Duration::ZERO, slow, ReadRate::BytesPerSecond(1000), 1000);
    let late =
        vec![Action::Send(request.into()), Action::Await(b"first small".to_vec()), Action::ShutdownWrite];
    let late = network.connect(Duration::from_secs(3), late, ReadRate::Unlimited, 5000);

    let plan = plan(SimulatedListener).0.with_memory_bytes_max(MEMORY_MAX);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    while network.state(slow) == ConnectionState::Open || network.state(late) == ConnectionState::Open {
        worker.run_iteration(None);
        assert!(worker.memory() <= MEMORY_MAX, "{} bytes", worker.memory());
        assert!(network.elapsed() < Duration::from_secs(29), "must end before any timeout: {network:?}");
    }
    assert_eq!(
        (network.state(slow), network.state(late)),
        (ConnectionState::Closed, ConnectionState::Closed)
    );
    let reset = greedy.iter().filter(|peer| network.state(**peer) == ConnectionState::Reset).count();
    assert!((20..40).contains(&reset), "{reset} of {}", greedy.len());
}

/// Memory was only checked after an iteration if connections had used up what they may send in it. On a busy
/// machine, an iteration ran so many connections that the process exceeded its limit and aborted.
#[test]
fn connections_are_closed_as_soon_as_they_take_too_much_memory() {
    const MEMORY_MAX: u64 = 1 << 20;
    const CONNECTION_BYTES_MAX: u64 = 128 * 1024;
    let pipeline = || Action::Send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4000).into_bytes());
    // Connections wait for the next iteration with a small budget, and for the socket with a large one.
    for iteration_bytes_max in [1000, u64::MAX] {
        let network = Network::new(7);
        for _ in 0..100 {
            network.connect(Duration::ZERO, vec![pipeline(), Action::AwaitClose], ReadRate::Zero, 5000);
        }
        let plan = plan(SimulatedListener).0.with_memory_bytes_max(MEMORY_MAX);
        let plan = plan.with_iteration_bytes_max(iteration_bytes_max);
        let mut worker = Worker::new(Simulated::new(network), plan).unwrap();
        let mut is_limit_reached = false;
        for _ in 0..20 {
            worker.run_iteration(None);
            let peak = worker.recent_peak_memory();
            is_limit_reached |= peak > MEMORY_MAX;
            assert!(peak <= MEMORY_MAX + CONNECTION_BYTES_MAX, "{peak} bytes");
        }
        assert!(is_limit_reached, "too few connections for this test");
    }
}

#[test]
fn iteration_sends_a_limited_number_of_bytes() {
    const BUDGET: usize = 1000;
    let network = Network::new(7);
    let request = b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec();
    let actions = vec![Action::Send(request), Action::AwaitClose];
    let peer = network.connect(Duration::ZERO, actions, ReadRate::Unlimited, 1 << 20);
    let plan = plan(SimulatedListener).0.with_iteration_bytes_max(BUDGET as u64);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    for iteration in 1..ITERATIONS_MAX {
        worker.run_iteration(None);
        // Received bytes are a lower bound on sent bytes.
        let received = network.received(peer).len();
        assert!(received <= iteration * BUDGET, "{received} bytes in {iteration} iterations");
        if network.state(peer) != ConnectionState::Open {
            assert!(received > 80 * BUDGET, "{received} bytes");
            return;
        }
    }
    panic!("the connection never ended: {network:?}");
}
