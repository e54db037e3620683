//! Measures the time it takes to answer: `cargo run --release -p cannery-site --example answer`.
//!
//! Like a browser, this requests small files in random order. Prints the median of eleven rounds, in
//! nanoseconds.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::Instant;

use cannery_site::{Method, Request, Scratch, Values};

const ROUNDS: usize = 11;
const REQUESTS: usize = 200_000;

fn main() {
    let site = support::site();
    let mut scratch = Scratch::default();
    let targets: Vec<String> = (0..500).map(|number| format!("/docs/{}.html", number * 7919 % 500)).collect();

    for accept_encoding in [None, Some("gzip, deflate, br, zstd")] {
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                for number in 0..REQUESTS {
                    let mut request = Request::new(Method::Get, targets[number % targets.len()].as_bytes());
                    request.accept_encoding =
                        accept_encoding.map_or(Values::NONE, |value| Values::one(value.as_bytes()));
                    black_box(site.answer(black_box(&request), &mut scratch));
                }
                began.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64
            })
            .collect();

        rounds.sort_by(f64::total_cmp);
        println!(
            "Accept-Encoding {:28} {:.0} ns per answer",
            accept_encoding.unwrap_or("absent"),
            rounds[ROUNDS / 2]
        );
    }
}
