//! Many peers who are late at the same moment, on the made-up network.

use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{Act, Appetite, Fate, Network, Random, Simulated, SimulatedListener};

use super::site::Releases;
use super::{TURNS_MAX, config};
use crate::current::Current;
use crate::observer::Observer;
use crate::worker::{LATE_CONNECTIONS_MAX, Plan, StopOrder, Worker};

const PEERS: usize = 5 * LATE_CONNECTIONS_MAX / 2;

#[test]
fn one_turn_ends_no_more_than_a_few_of_those_who_are_late_together() {
    let network = Network::new(7);
    let peers: Vec<_> = (0..PEERS)
        .map(|_| network.connect(Duration::ZERO, vec![Act::AwaitEnd], Appetite::Good, 100))
        .collect();
    let current = Arc::new(Current::new(Releases::make().first));
    let config = super::Config { connections_max: None, ..config(&mut Random::new(7)) };
    let stop = Arc::new(StopOrder::default());
    let plan = Plan::new(&config, vec![SimulatedListener], current, stop, Observer::default());
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).unwrap();

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
