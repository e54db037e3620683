//! Measures the slowest requests on the worst sites with 10,000 rules:
//! `cargo run --release -p cannery-site --example rules`.
//!
//! Prints the average of the best round.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark: it prints, and a panic ends it")]

use std::hint::black_box;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Format, Key, NewRecord, NewRule, NewScope, Piece, Writer};
use cannery_site::{Method, Request, Scratch, Site, VirtualHosts};

const RULES: usize = 10_000;
const ROUNDS: usize = 20;
const REQUESTS: u32 = 500;

fn main() {
    let deep = |last: &str| format!("{}{last}", "x/".repeat(22));
    let choices = |number: usize| (0..14).map(move |bit| if number >> bit & 1 == 1 { "x/" } else { ":/" });
    let patterns = |make: &dyn Fn(usize) -> String| (0..RULES).map(make).collect::<Vec<_>>();
    let scenarios: Vec<(&str, Vec<String>, String)> = vec![
        ("one rule, an ordinary path", vec!["old/*".into()], "/blog/2024/some-page".into()),
        ("`/old/N/*`, an ordinary path", patterns(&|n| format!("old/{n}/*")), "/blog/2024/some-page".into()),
        ("`/old/N/*`, the last one", patterns(&|n| format!("old/{n}/*")), "/old/9999/page".into()),
        (
            "`/:/xN/*`, a segment of 3,900 bytes",
            patterns(&|n| format!(":/x{n}/*")),
            format!("/{}", "a".repeat(3_900)),
        ),
        ("`/:/xN/*`, 4,000 slashes", patterns(&|n| format!(":/x{n}/*")), format!("/{}", "a/".repeat(2_000))),
        (
            "all choices of `x` and `:` in 14 segments",
            patterns(&|n| format!("{}{n}", choices(n).collect::<String>())),
            format!("/{}none", "x/".repeat(14)),
        ),
        (
            "the same, then ten literals",
            patterns(&|n| format!("{}{}{n}", choices(n).collect::<String>(), "y/".repeat(9))),
            format!("/{}{}none/", "x/".repeat(14), "y/".repeat(9)),
        ),
        ("22 equal segments, then `N*`", patterns(&|n| deep(&format!("{n}*"))), format!("/{}none", deep(""))),
        ("`/pN*`", patterns(&|n| format!("p{n}*")), "/p/none".into()),
        (
            "prefixes in prefixes, `/aaa:/N`",
            patterns(&|n| format!("{}:/{n}", "a".repeat(1 + n % 255))),
            format!("/{}/none/", "a".repeat(300)),
        ),
        (
            "suffixes in suffixes, `/N/*aaa`",
            patterns(&|n| format!("{n}/*{}", "a".repeat(1 + n % 255))),
            format!("/none/{}", "a".repeat(300)),
        ),
        ("`/*.N`", patterns(&|n| format!("*.{n}")), "/some/page.none".into()),
    ];

    println!("{:>9}  {:>9}  {:<44}", "ns", "archive", "rules and request");
    for (name, patterns, target) in scenarios {
        for force in [false, true] {
            let (site, bytes) = site(&patterns, force, &[]);
            let words = if force { ", forced" } else { "" };
            report(&site, bytes, &format!("{name}{words}"), &target, "example.com");
        }
    }

    let labels = |count: usize| vec!["a"; count].join(".");
    let below = (1..=16).map(|count| format!("*.{}", labels(count))).collect::<Vec<_>>();
    for (name, hosts) in [("`*.w.test`", vec!["*.w.test".to_owned()]), ("16 nested wildcard hosts", below)] {
        let (site, bytes) = site(&["old/*".into()], false, &hosts);
        report(&site, bytes, &format!("{name}, 126 labels"), "/none", &labels(126));
    }
}

/// Returns a site and the size of its archive. The default site and each of these hosts have the same rules.
fn site(patterns: &[String], force: bool, hosts: &[String]) -> (Site, usize) {
    let rules: Vec<NewRule<'_>> = (0..)
        .zip(patterns)
        .map(|(ordinal, pattern)| NewRule {
            ordinal,
            force,
            pages_only: false,
            pattern: pieces(pattern),
            record: NewRecord::Redirect {
                status: 302,
                has_query: false,
                fragment: b"",
                target: vec![Piece::Literal(b"/to")],
            },
        })
        .collect();

    let scope = NewScope { rules, ..NewScope::default() };
    let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
    writer.scope(None, Key::ROOT, &scope).unwrap();

    for host in hosts {
        writer.scope(Some(host), Key::ROOT, &scope).unwrap();
    }

    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();

    let length = bytes.len();
    (Site::new(Archive::from_bytes(bytes).unwrap(), VirtualHosts::Enabled), length)
}

/// Parses a pattern. `:` means a capture, and `*` means a splat.
fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for run in pattern.split_inclusive([':', '*']) {
        let (literal, sign) = match run.strip_suffix([':', '*']) {
            Some(literal) => (literal, run.chars().last()),
            None => (run, None),
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.as_bytes()));
        }
        match sign {
            Some(':') => pieces.push(Piece::Capture(0)),
            Some(_) => pieces.push(Piece::Splat(0)),
            None => {}
        }
    }
    pieces
}

fn report(site: &Site, bytes: usize, name: &str, target: &str, host: &str) {
    let mut scratch = Scratch::default();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..REQUESTS {
            let mut request = Request::new(Method::Get, black_box(target).as_bytes());
            request.host = Some(host.as_bytes());
            black_box(site.answer(&request, &mut scratch).status);
        }
        best = best.min(started.elapsed() / REQUESTS);
    }
    println!("{:>9}  {:>6} kB  {name}", best.as_nanos(), bytes / 1000);
}
