//! Tests of HTTP/2 with prior knowledge on the simulated network.
//!
//! Peers can open several streams at once, open windows in steps, reset streams, change their settings, and
//! violate the protocol. Each stream must receive the same fields and body as the HTTP/1 model returns for
//! the request.
//!
//! In order not to share any code with the server, the peers use the testkit to encode and parse
//! frames.

mod model;
mod requests;
mod script;
mod timeouts;

use cannery_eventloop::simulated::{Network, Random};

use super::run_seeds;
use super::scenario::{Outcome, Scenario};
use super::site::Releases;
use requests::Expected;
use script::Script;

/// Number of seeds in a normal run of the test.
const SEEDS: u64 = 3_000;

#[test]
fn streams_match_the_reference_model() {
    let releases = Releases::build();
    let expected = Expected::of(&releases);
    run_seeds(SEEDS, |seed| run(seed, &releases, &expected));
}

/// Runs the scenario of a seed, with up to four peers, one worker, and sometimes a new release or a
/// shutdown.
///
/// # Errors
///
/// Returns an error if a peer received frames that the model does not allow.
fn run(seed: u64, releases: &Releases, expected: &Expected) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let proxied = random.once_in(8);
    let scripts: Vec<Script> = (0..random.size(4)).map(|_| Script::generate(&mut random, proxied)).collect();
    let peers: Vec<_> = scripts.iter().map(|script| script.connect(&network, &mut random)).collect();
    let scenario = Scenario { proxied, http1: !random.once_in(4), ..Scenario::generate(&mut random) };
    let Outcome { stopped } = scenario.run(&network, releases)?;
    for (script, peer) in scripts.iter().zip(peers) {
        let received = network.received(peer);
        model::check(script, &received, network.state(peer), expected, stopped)
            .map_err(|fault| format!("{fault}\n{script:?}\n{:?}", network.state(peer)))?;
    }
    Ok(())
}
