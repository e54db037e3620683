//! The server on a made-up network, run from thousands of seeds: whatever peers, network and releases do,
//! each peer gets the bytes that an undisturbed connection would give it, or the beginning of them.
//!
//! A failure prints its seed. `CANNERY_SEED=N cargo test -p cannery-server simulation` runs that one alone;
//! `CANNERY_SEEDS=N` runs so many.

mod course;
mod crowds;
mod http2;
mod patience;
mod script;
mod site;
mod twin;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_eventloop::EventLoop;
use cannery_eventloop::simulated::{Network, Random};

use crate::config::{self, Config, ListenerKind};
use crate::observe::Observer;
use crate::reload::Current;
use crate::worker::{Plan, StopOrder, Worker};
use course::{Course, Plot, TURNS_MAX};
use script::Script;
use site::Releases;

pub(crate) use site::archive;

/// Seeds that the ordinary test runs.
const SEEDS: u64 = 10_000;

#[test]
fn every_peer_gets_what_an_undisturbed_connection_would_give_it() {
    let releases = Releases::make();
    run_seeds(SEEDS, |seed| run(seed, &releases));
}

/// Runs all seeds, or the one or as many as the environment names.
fn run_seeds(seeds: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    let of_environment = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = of_environment("CANNERY_SEED") {
        run(seed).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        return;
    }
    let seeds = of_environment("CANNERY_SEEDS").unwrap_or(seeds);
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

/// One run: peers that the seed invents, one worker, perhaps a new release or the order to stop.
fn run(seed: u64, releases: &Releases) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let proxied = random.once_in(4);
    let scripts: Vec<Script> = (0..random.size(5)).map(|_| Script::invent(&mut random, proxied)).collect();
    let peers: Vec<_> = scripts.iter().map(|script| script.connect(&network, &mut random)).collect();
    let Course { stopped } = Plot { proxied, ..Plot::invent(&mut random) }.run(&network, releases)?;
    for (script, peer) in scripts.iter().zip(peers) {
        let received = network.received(peer);
        twin::check(script, &received, network.state(peer), releases, stopped)
            .map_err(|fault| format!("{fault}\n{script:?}\nreceived {} bytes", received.len()))?;
    }
    Ok(())
}

/// A worker that serves the first release, and as many peers as come.
fn worker<L: EventLoop>(events: L, listener: L::Listener) -> Worker<L> {
    Worker::new(events, plan(listener).0).unwrap()
}

/// What such a worker is told, and where it looks for its release.
fn plan<L>(listener: L) -> (Plan<L>, Arc<Current>) {
    let config =
        Config { drain: Duration::from_secs(5), ..Config::plain(config::Content::Dummy { body: b"" }) };
    let current = Arc::new(Current::new(Releases::make().first));
    let stop = Arc::new(StopOrder::default());
    let listeners = [(ListenerKind::Plain, listener)];
    (Plan::new(&config, listeners, Arc::clone(&current), stop, Observer::default()), current)
}
