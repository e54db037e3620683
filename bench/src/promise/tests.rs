//! Tests of promises.

use super::*;
use crate::results::Samples;

fn promise(bound: &str) -> Promise {
    toml::from_str(&format!("promise = ''\nstep = '64'\nbound = {bound}")).unwrap()
}

/// Cannery needs 4 µs with 64 connections and 3 µs with 32; the floor needs 2 µs and nginx 6 µs.
fn results() -> Results {
    let mut samples = Samples::default();
    for (step, series, value) in
        [("64", "cannery", 4.0), ("64", "floor", 2.0), ("64", "nginx", 6.0), ("32", "cannery", 3.0)]
    {
        samples.add(step, series, vec![(Metric::CpuUs, value)]);
    }
    Results { conditions: Vec::new(), rows: samples.into_rows() }
}

#[test]
fn bounds_compare_in_the_right_direction() {
    let verdict = |bound| promise(bound).verdict(&results()).map(|(verdict, _)| verdict);
    let (kept, missed) = (Some(Verdict::Kept), Some(Verdict::Missed));
    assert_eq!(verdict("{ at_most = { times = 2.0, of = 'floor' } }"), kept);
    assert_eq!(verdict("{ at_most = { times = 1.9, of = 'floor' } }"), missed);
    assert_eq!(verdict("{ better = { times = 1.5, than = 'nginx' } }"), kept);
    assert_eq!(verdict("{ better = { times = 1.6, than = 'nginx' } }"), missed);
    assert_eq!(verdict("{ better_than_all = ['nginx', 'absent'] }"), kept);
    assert_eq!(verdict("{ better_than_all = ['nginx', 'floor'] }"), missed);
    assert_eq!(verdict("{ below = 4.0 }"), kept);
    assert_eq!(verdict("{ below = 3.9 }"), missed);
    assert_eq!(verdict("{ above = { step = '32', by = 1.0 } }"), kept);
    assert_eq!(verdict("{ above = { step = '32', by = 0.5 } }"), missed);
    assert_eq!(verdict("'no_errors'"), kept);
    assert_eq!(verdict("{ better = { times = 1.0, than = 'h2o' } }"), None);
}

#[test]
fn scaling_needs_busy_threads() {
    let verdict = |busy: [f64; 2], cpu_us: f64| {
        let mut samples = Samples::default();
        samples.add("1", OURS, vec![(Metric::CpuUs, 4.0), (Metric::Busy, busy[0])]);
        samples.add("64", OURS, vec![(Metric::CpuUs, cpu_us), (Metric::Busy, busy[1])]);
        let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
        promise("{ linear = 0.95 }").verdict(&results).map(|(verdict, _)| verdict)
    };
    assert_eq!(verdict([0.99, 0.9], 4.2), Some(Verdict::Kept));
    assert_eq!(verdict([0.99, 0.9], 5.0), Some(Verdict::Missed));
    assert_eq!(verdict([0.99, 0.3], 4.2), Some(Verdict::Undecided(0.3)));
    assert_eq!(verdict([0.8, 0.9], 4.2), Some(Verdict::Undecided(0.8)));
}

#[test]
fn an_error_misses_every_promise_of_its_step() {
    let mut samples = Samples::default();
    samples.fail("64", OURS);
    let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
    let verdict = promise("'no_errors'").verdict(&results).map(|(verdict, _)| verdict);
    assert_eq!(verdict, Some(Verdict::Missed));
    assert_eq!(promise("'no_errors'").verdict(&Results::default()), None);
}
