//! Tests of tables of results.

use super::*;

fn sample(cpu_us: f64) -> Sample {
    vec![(Metric::CpuUs, cpu_us), (Metric::Busy, 0.5)]
}

#[test]
fn rows_hold_medians_and_extremes() {
    let mut samples = Samples::default();
    for value in [9.0, 1.0, 5.0] {
        samples.add("64", "floor", sample(value));
    }
    let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
    let get = |metric| results.get("64", "floor", metric);
    assert_eq!([Metric::CpuUsMin, Metric::CpuUs, Metric::CpuUsMax].map(get), [1.0, 5.0, 9.0].map(Some));
    assert_eq!((get(Metric::P50Us), results.rows[0].rounds), (None, 3));
    assert!(median(Vec::new()).is_nan());
}

#[test]
fn a_failure_replaces_earlier_rounds() {
    let mut samples = Samples::default();
    samples.add("64", "floor", sample(1.0));
    samples.fail("64", "floor");
    let results = Results { conditions: Vec::new(), rows: samples.into_rows() };
    assert_eq!((results.failures(), results.get("64", "floor", Metric::CpuUs)), (1, None));
}

#[test]
fn a_table_is_parsed_as_it_is_written() {
    let mut samples = Samples::default();
    samples.add("64", "floor", sample(3.25));
    samples.add("64", "nginx", vec![(Metric::RequestsPerS, 282_822.0)]);
    let written = Results { conditions: vec!["command: x".into()], rows: samples.into_rows() };
    let parsed = Results::parse(&written.to_string()).unwrap();
    assert_eq!(parsed, written);
    assert_eq!((parsed.condition("command"), parsed.series()), ("x", vec!["floor", "nginx"]));
    assert!(Results::parse("step\tseries\trounds\tmiles\n").is_err());
    assert!(Results::parse("step\tseries\trounds\tbusy\n64\tfloor\t1\n").is_err());
}

#[test]
fn values_keep_five_digits() {
    assert_eq!([3.161_234_5, 0.970_001, 282_822.4].map(digits), ["3.1612", "0.97", "282822"]);
}
