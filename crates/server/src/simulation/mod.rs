//! The server on a made-up network, run from thousands of seeds: whatever peers, network and releases do,
//! each peer gets the bytes that an undisturbed connection would give it, or the beginning of them.
//!
//! A failure prints its seed. `CANNERY_SEED=N cargo test -p cannery-server simulation` runs that one alone;
//! `CANNERY_SEEDS=N` runs so many.

mod crowds;
mod patience;
mod script;
mod site;
mod twin;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_eventloop::EventLoop;
use cannery_eventloop::simulated::{Network, Random, Simulated, SimulatedListener};

use crate::config::{self, Config, ListenerKind};
use crate::current::Current;
use crate::observer::Observer;
use crate::worker::{Plan, StopOrder, Worker};
use script::Script;
use site::Releases;

pub(crate) use site::archive;

/// Seeds that the ordinary test runs.
const SEEDS: u64 = 10_000;

/// Turns of the loop after which a run must have come to rest.
const TURNS_MAX: usize = 20_000;

#[test]
fn every_peer_gets_what_an_undisturbed_connection_would_give_it() {
    let of_environment = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let releases = Releases::make();
    if let Some(seed) = of_environment("CANNERY_SEED") {
        run(seed, &releases).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        return;
    }
    let seeds = of_environment("CANNERY_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    if let Err(fault) = run(seed, &releases) {
                        next.store(seeds, Ordering::Relaxed);
                        panic!("seed {seed}: {fault}");
                    }
                }
            });
        }
    });
}

/// One run: peers that the seed invents, one worker, perhaps a new release or the order to stop.
fn run(seed: u64, releases: &Releases) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let proxied = random.once_in(4);
    let scripts: Vec<Script> = (0..random.size(5)).map(|_| Script::invent(&mut random, proxied)).collect();
    let peers: Vec<_> = scripts.iter().map(|script| script.connect(&network, &mut random)).collect();

    let current = Arc::new(Current::new(Arc::clone(&releases.first)));
    let plan = Plan::new(
        &Config { proxy_protocol: proxied, ..config(&mut random) },
        [(ListenerKind::Plain, SimulatedListener)],
        Arc::clone(&current),
        Arc::new(StopOrder::default()),
        Observer::default(),
    );
    // Often so small that little is done in one turn.
    let turn_bytes_max =
        100 + if random.once_in(2) { random.size(1000) } else { random.size(200_000) } as u64;
    let plan = plan.with_turn_bytes_max(turn_bytes_max);
    let mut worker = Worker::new(Simulated::new(network.clone()), plan).map_err(|error| error.to_string())?;
    let release_at = random.once_in(3).then(|| random.below(60));
    let stop_at = random.once_in(6).then(|| random.below(100));
    let mut stops = None;
    for turn in 0.. {
        if turn > TURNS_MAX {
            return Err(format!("no rest after {:?}: {network:?}", network.elapsed()));
        }
        if release_at == Some(turn) {
            current.replace(Arc::clone(&releases.second));
            network.wake();
        }
        if stop_at == Some(turn) {
            stops = Some(worker.begin_drain());
        }
        if network.is_at_rest() && worker.is_idle() {
            break;
        }
        worker.turn(stops);
        if stops.is_some_and(|end| worker.now() >= end) {
            break;
        }
    }
    drop(worker);
    for (script, peer) in scripts.iter().zip(peers) {
        let received = network.received(peer);
        twin::check(script, &received, network.fate(peer), releases, stop_at.is_some())
            .map_err(|fault| format!("{fault}\n{script:?}\nreceived {} bytes", received.len()))?;
    }
    Ok(())
}

fn config(random: &mut Random) -> Config {
    Config {
        connections_max: if random.once_in(3) { NonZeroUsize::new(2) } else { None },
        drain: Duration::from_secs(5),
        ..Config::plain(config::Content::Dummy { body: b"" })
    }
}

/// A worker that serves the first release, and as many peers as come.
fn worker<L: EventLoop>(events: L, listener: L::Listener) -> Worker<L> {
    Worker::new(events, plan(listener)).unwrap()
}

/// What such a worker is told.
fn plan<L>(listener: L) -> Plan<L> {
    let config = Config { connections_max: None, ..config(&mut Random::new(7)) };
    let current = Arc::new(Current::new(Releases::make().first));
    let stop = Arc::new(StopOrder::default());
    Plan::new(&config, [(ListenerKind::Plain, listener)], current, stop, Observer::default())
}
