//! HTTP/2 on the made-up network: peers who begin with prior knowledge, ask on several streams at once, open windows in
//! steps, reset, change their mind and their settings, or break the rules; and what each stream must have got.
//!
//! Nothing that reads or spells frames here is the server's. What an answer has to be is what HTTP/1 answers.

mod frames;
mod patience;
mod requests;
mod script;
mod twin;

use cannery_eventloop::simulated::{Network, Random};

use super::course::{Course, Plot};
use super::run_seeds;
use super::site::Releases;
use requests::Expected;
use script::Script;

/// Seeds that the ordinary test runs.
const SEEDS: u64 = 3_000;

#[test]
fn every_stream_gets_what_an_undisturbed_connection_would_give_it() {
    let releases = Releases::make();
    let expected = Expected::of(&releases);
    run_seeds(SEEDS, |seed| run(seed, &releases, &expected));
}

/// One run: peers that the seed invents, one worker, perhaps a new release or the order to stop.
fn run(seed: u64, releases: &Releases, expected: &Expected) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let proxied = random.once_in(8);
    let scripts: Vec<Script> = (0..random.size(4)).map(|_| Script::invent(&mut random, proxied)).collect();
    let peers: Vec<_> = scripts.iter().map(|script| script.connect(&network, &mut random)).collect();
    let plot = Plot { proxied, http1: !random.once_in(4), ..Plot::invent(&mut random) };
    let Course { stopped } = plot.run(&network, releases)?;
    for (script, peer) in scripts.iter().zip(peers) {
        let received = network.received(peer);
        twin::check(script, &received, network.state(peer), expected, stopped)
            .map_err(|fault| format!("{fault}\n{script:?}\n{:?}", network.state(peer)))?;
    }
    Ok(())
}
