//! Tests that our HTTP/2 works with the `h2` crate, using inputs generated from seeds.
//!
//! We run the same code in the fuzz targets `interop_client` and `interop_server`.
//!
//! Set `CANNERY_SEED` to repeat one seed.

#![forbid(unsafe_code)]

#[allow(unreachable_pub, reason = "the fuzz targets re-export them")]
mod peers;

/// Runs a peer with many seeds. The first inputs are short.
fn run(peer: fn(&[u8]), seeds: u64) {
    if let Some(seed) = std::env::var("CANNERY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return peer(&bytes_of(seed));
    }
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| peer(&bytes_of(seed)));
        assert!(outcome.is_ok(), "seed {seed}: CANNERY_SEED={seed} replays it");
    }
}

/// Generates the input for a seed (splitmix64). It has up to 2,000 bytes.
fn bytes_of(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let words = 1 + next() % (seed + 2).min(250);
    (0..words).flat_map(|_| next().to_be_bytes()).collect()
}

#[test]
fn h2_client_receives_each_response() {
    run(peers::client, 1_500);
}

#[test]
fn verdicts_match_those_of_the_h2_server() {
    run(peers::server, 20_000);
}
