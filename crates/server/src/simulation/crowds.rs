//! Many peers who come, or are late, at the same moment, and one who takes all that it is given: no turn sees to all of
//! that, and all is seen to.
//!
//! Those who come do so on the kernel's network, whose queue takes them while the worker stands still.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, ConnectionState, Network, ReadRate, Simulated, SimulatedListener,
};
use cannery_eventloop::{Address, Claim, Waker};

use super::{TURNS_MAX, plan, worker};
use crate::worker::{ACCEPTED_MAX, DefaultLoop, LATE_CONNECTIONS_MAX, Worker};

#[test]
fn one_turn_accepts_no_more_than_a_few_of_those_who_come_together() {
    const PEERS: usize = 2 * ACCEPTED_MAX + 1;
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("not what was claimed") };
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
fn one_turn_ends_no_more_than_a_few_of_those_who_are_late_together() {
    const PEERS: usize = 5 * LATE_CONNECTIONS_MAX / 2;
    let network = Network::new(7);
    let peers: Vec<_> = (0..PEERS)
        .map(|_| network.connect(Duration::ZERO, vec![Action::AwaitClose], ReadRate::Unlimited, 100))
        .collect();
    let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
    let mut ended = 0;
    for _ in 0..TURNS_MAX {
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

#[test]
fn those_who_keep_most_memory_are_closed_first() {
    const MEMORY_MAX: u64 = 1 << 20;
    let network = Network::new(7);
    let request = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n";
    let pipeline = Action::Send(request.repeat(4000).into_bytes());
    // None of these reads; more of them than memory is for.
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

    let plan = plan(SimulatedListener).0.with_memory_max(MEMORY_MAX);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    while network.state(slow) == ConnectionState::Open || network.state(late) == ConnectionState::Open {
        worker.run_iteration(None);
        assert!(worker.memory() <= MEMORY_MAX, "{} bytes", worker.memory());
        assert!(network.elapsed() < Duration::from_secs(29), "before any of them is late: {network:?}");
    }
    assert_eq!(
        (network.state(slow), network.state(late)),
        (ConnectionState::Closed, ConnectionState::Closed)
    );
    let reset = greedy.iter().filter(|peer| network.state(**peer) == ConnectionState::Reset).count();
    assert!((20..40).contains(&reset), "{reset} of {}", greedy.len());
}

#[test]
fn one_turn_gives_a_connection_no_more_than_its_share() {
    const SHARE: usize = 1000;
    let network = Network::new(7);
    let request = b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec();
    let acts = vec![Action::Send(request), Action::AwaitClose];
    let peer = network.connect(Duration::ZERO, acts, ReadRate::Unlimited, 1 << 20);
    let plan = plan(SimulatedListener).0.with_iteration_bytes_max(SHARE as u64);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();
    for turn in 1..TURNS_MAX {
        worker.run_iteration(None);
        // What was not sent has not arrived.
        let received = network.received(peer).len();
        assert!(received <= turn * SHARE, "{received} bytes in {turn} turns");
        if network.state(peer) != ConnectionState::Open {
            assert!(received > 80 * SHARE, "{received} bytes");
            return;
        }
    }
    panic!("it never ended: {network:?}");
}
