//! Tests how we parse and merge ranges and compares the result to a simple model.

use super::*;
use proptest::prelude::*;

/// Returns the first and last byte of each part.
fn parts(value: &str, length: u64) -> Vec<(u64, u64)> {
    match parse(value.as_bytes(), length) {
        Ranges::Parts(parts) => {
            parts.as_slice().iter().map(|part| (part.position, part.position + part.length - 1)).collect()
        }
        other => panic!("{value:?} is {other:?}"),
    }
}

#[test]
fn all_forms_of_ranges_are_parsed() {
    for (value, expected) in [
        ("bytes=0-499", vec![(0, 499)]),
        ("bytes=500-999", vec![(500, 999)]),
        ("bytes=-500", vec![(9500, 9999)]),
        ("bytes=9500-", vec![(9500, 9999)]),
        ("bytes=0-", vec![(0, 9999)]),
        ("BYTES=0-0", vec![(0, 0)]),
        ("bytes=9999-20000", vec![(9999, 9999)]),
        ("bytes=-20000", vec![(0, 9999)]),
        ("bytes=0-99999999999999999999999", vec![(0, 9999)]),
        ("bytes=0-0,-1", vec![(0, 0), (9999, 9999)]),
        ("bytes= 0-0 , ,\t5-6", vec![(0, 0), (5, 6)]),
        ("bytes=0-0,10000-", vec![(0, 0)]),
        // These should be merged in place of the first one, while the others keep their order.
        ("bytes=500-600,601-999", vec![(500, 999)]),
        ("bytes=500-700,601-999", vec![(500, 999)]),
        ("bytes=700-800,0-9,600-699", vec![(600, 800), (0, 9)]),
        ("bytes=0-9,20-29,10-19", vec![(0, 29)]),
        ("bytes=50-59,0-9,40-49,10-39", vec![(0, 59)]),
    ] {
        assert_eq!(parts(value, 10_000), expected, "{value}");
    }
}

#[test]
fn unsatisfiable_and_malformed_ranges_are_distinguished() {
    for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,99-100"] {
        assert_eq!(parse(value.as_bytes(), 10), Ranges::Unsatisfiable, "{value}");
    }

    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-",
        "bytes=1",
        "bytes=5-4",
        "bytes=+1-2",
        "bytes=1-2-3",
        "bytes=0-1,x",
        "bytes =0-1",
        "octets=0-1",
        "bytes=0x1-2",
        "bytes=1 -2",
        "bytes:0-1",
    ] {
        assert_eq!(parse(value.as_bytes(), 10), Ranges::Ignored, "{value}");
    }

    assert_eq!(parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
    assert_eq!(parse(b"bytes=-5", 0), Ranges::Ignored);
}

#[test]
fn too_many_parts_are_ignored() {
    let list = |count: usize| (0..count).map(|at| format!("{0}-{0}", at * 10)).collect::<Vec<_>>().join(",");
    assert_eq!(parts(&format!("bytes={}", list(RANGES_MAX)), 10_000).len(), RANGES_MAX);
    let one_more = format!("bytes={}", list(RANGES_MAX + 1));
    assert_eq!(parse(one_more.as_bytes(), 10_000), Ranges::Ignored);
}

proptest! {
    /// The model marks each byte that is requested.
    #[test]
    fn parts_are_the_requested_bytes(
        length in 1u64..60,
        requested in proptest::collection::vec((0u64..70, 0u64..70), 1..RANGES_MAX),
    ) {
        let ranges = requested.iter().map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect::<Vec<_>>();
        let value = format!("bytes={}", ranges.join(","));
        let wanted: Vec<bool> = (0..length)
            .map(|at| requested.iter().any(|(a, b)| (*a.min(b)..=*a.max(b)).contains(&at)))
            .collect();

        match parse(value.as_bytes(), length) {
            Ranges::Ignored => prop_assert!(false, "{value} is valid"),
            Ranges::Unsatisfiable => prop_assert!(!wanted.contains(&true)),
            Ranges::Parts(parts) => {
                let mut got = vec![0; wanted.len()];
                for part in parts.as_slice() {
                    prop_assert!(part.length > 0);
                    for at in part.position..part.position + part.length {
                        got[usize::try_from(at).unwrap()] += 1;
                    }
                }
                prop_assert_eq!(got, wanted.iter().map(|wanted| i32::from(*wanted)).collect::<Vec<_>>());

                // Parts must not touch, or they would have been merged.
                let ends = |part: &Extent| (part.position, part.position + part.length);
                for one in parts.as_slice() {
                    for other in parts.as_slice().iter().filter(|other| *other != one) {
                        prop_assert!(ends(one).1 < ends(other).0 || ends(other).1 < ends(one).0);
                    }
                }
            }
        }
    }
}
