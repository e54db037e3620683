//! Tests of the server on a simulated network, using scenarios that are generated from thousands of
//! seeds.
//!
//! Peers can be slow, cut their requests, or reset; releases can be replaced; and the server can stop. In all
//! of these cases, a peer must receive the bytes that the reference model returns for an undisturbed
//! connection, or a prefix of them.
//!
//! If a test fails, it prints the seed. Use `CANNERY_SEED=N cargo test -p cannery-server simulation` to
//! repeat that seed, or `CANNERY_SEEDS=N` to run all seeds below N.

mod deadlines;
mod http2;
mod http3;
mod many_connections;
mod memory;
mod model;
mod scenario;
mod script;
mod site;
mod timeouts;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_eventloop::EventLoop;
use cannery_eventloop::simulated::{Network, Random};

use crate::config::{self, Config, ListenerKind};
use crate::content::Current;
use crate::observe::Observer;
use crate::worker::{Plan, StopFlag, Worker};
use scenario::{ITERATIONS_MAX, Outcome, Scenario};
use script::Script;
use site::Releases;

pub(crate) use site::archive;

/// Number of seeds in a normal run of the tests.
const SEEDS: u64 = 10_000;

#[test]
fn responses_match_the_reference_model() {
    let releases = Releases::build();
    run_seeds(SEEDS, |seed| run(seed, &releases));
}

/// Runs `seeds` seeds, or those that `CANNERY_SEED` or `CANNERY_SEEDS` select, on all processors.
fn run_seeds(seeds: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    let number_from_environment = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number_from_environment("CANNERY_SEED") {
        run(seed).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        return;
    }

    let seeds = number_from_environment("CANNERY_SEEDS").unwrap_or(seeds);
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
                    if let Err(fault) = run(seed) {
                        next.store(seeds, Ordering::Relaxed);
                        panic!("seed {seed}: {fault}");
                    }
                }
            });
        }
    });
}

/// Runs the scenario of a seed, with up to five peers, one worker, and sometimes a new release or a
/// shutdown.
///
/// # Errors
///
/// Returns an error if a peer received bytes that the model does not allow.
fn run(seed: u64, releases: &Releases) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let proxied = random.once_in(4);
    let scripts: Vec<Script> = (0..random.size(5)).map(|_| Script::generate(&mut random, proxied)).collect();
    let peers: Vec<_> = scripts.iter().map(|script| script.connect(&network, &mut random)).collect();
    let scenario = Scenario { proxied, ..Scenario::generate(&mut random) };
    let Outcome { stopped } = scenario.run(&network, releases)?;
    for (script, peer) in scripts.iter().zip(peers) {
        let received = network.received(peer);
        model::check(script, &received, network.state(peer), releases, stopped)
            .map_err(|fault| format!("{fault}\n{script:?}\nreceived {} bytes", received.len()))?;
    }
    Ok(())
}

/// Returns a worker that serves the first release to any number of peers.
fn worker<L: EventLoop>(events: L, listener: L::Listener) -> Worker<L> {
    Worker::new(events, plan(listener).0).unwrap()
}

/// Returns the plan of such a worker, and the slot from which it takes its release.
fn plan<L, D>(listener: L) -> (Plan<L, D>, Arc<Current>) {
    let config = Config { drain: Duration::from_secs(5), ..Config::plain(config::Content::dummy(b"")) };
    let current = Arc::new(Current::new(Releases::build().first));
    let stop = Arc::new(StopFlag::default());
    let listeners = [(ListenerKind::Plain, listener)];
    (Plan::new(&config, listeners, Arc::clone(&current), stop, Observer::default()), current)
}
