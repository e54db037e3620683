//! Many peers who come, or are late, at the same moment: no turn sees to all of them, and all are seen to.
//!
//! Those who come do so on the kernel's network, whose queue takes them while the worker stands still.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cannery_eventloop::simulated::{Act, Appetite, Fate, Network, Simulated, SimulatedListener};
use cannery_eventloop::{Address, Claim, Epoll, Waker};

use super::{TURNS_MAX, worker};
use crate::worker::{ACCEPTED_MAX, LATE_CONNECTIONS_MAX};

#[test]
fn one_turn_accepts_no_more_than_a_few_of_those_who_come_together() {
    const PEERS: usize = 2 * ACCEPTED_MAX + 1;
    let claim = Claim::new(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let Address::Internet(address) = claim.address() else { panic!("not what was claimed") };
    let listener = claim.listen().unwrap();
    let mut worker = worker(Epoll::new(Waker::new().unwrap()).unwrap(), listener);
    let _peers: Vec<_> = (0..PEERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let counts = [(); 3].map(|()| {
        worker.turn(None);
        worker.connections()
    });
    assert_eq!(counts, [ACCEPTED_MAX, 2 * ACCEPTED_MAX, PEERS]);
}

#[test]
fn one_turn_ends_no_more_than_a_few_of_those_who_are_late_together() {
    const PEERS: usize = 5 * LATE_CONNECTIONS_MAX / 2;
    let network = Network::new(7);
    let peers: Vec<_> = (0..PEERS)
        .map(|_| network.connect(Duration::ZERO, vec![Act::AwaitEnd], Appetite::Good, 100))
        .collect();
    let mut worker = worker(Simulated::new(network.clone()), SimulatedListener);
    let mut ended = 0;
    for _ in 0..TURNS_MAX {
        worker.turn(None);
        let ended_now = peers.iter().filter(|peer| network.fate(**peer) != Fate::Open).count();
        assert!(ended_now <= ended + LATE_CONNECTIONS_MAX, "{ended_now} after {ended}");
        ended = ended_now;
        if ended == PEERS {
            return;
        }
    }
    panic!("{ended} of {PEERS} ended: {network:?}");
}
