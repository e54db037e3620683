//! Unit tests of splitting content into records.

use super::*;

/// The lengths of the records, and the bytes in them.
fn records(runs: &[&[u8]], max: usize) -> (Vec<usize>, Vec<u8>) {
    let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
    let mut runs = Runs::new(&runs);
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    while runs.left() > 0 {
        let length = runs.next_length(max);
        lengths.push(length);
        match runs.whole(length) {
            Some(whole) => bytes.extend_from_slice(whole),
            None => {
                let start = bytes.len();
                bytes.resize(start + length, 0);
                runs.copy(&mut bytes[start..]);
            }
        }
    }
    (lengths, bytes)
}

#[test]
fn short_runs_fill_a_record_before_the_next_begins() {
    let run = [1; 1000];
    let (lengths, bytes) = records(&[&run[..]; 40], limits::CONTENT_BYTES_MAX);
    assert_eq!(lengths, [16384, 16384, 40_000 - 2 * 16384]);
    assert_eq!(bytes, [1; 40_000]);
}

#[test]
fn a_long_run_is_cut_where_it_lies_and_what_was_before_goes_alone() {
    let (head, body) = ([1; 200], [2; 40_000]);
    let (lengths, _) = records(&[&head, &body, &head, &head], limits::CONTENT_BYTES_MAX);
    assert_eq!(lengths, [200, 16384, 16384, 40_000 - 2 * 16384, 400]);
}

#[test]
fn a_short_record_is_filled_whatever_the_runs() {
    let (head, body) = ([1; 200], [2; 10_000]);
    let (lengths, bytes) = records(&[&head, &body], limits::FIRST_CONTENT_BYTES);
    assert_eq!(lengths, [4096, 4096, 10_200 - 2 * 4096]);
    assert_eq!((bytes[199], bytes[200]), (1, 2));
}

#[test]
fn every_byte_comes_once_and_in_order_whatever_the_runs() {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let mut state = 1_u64;
    for _ in 0..300 {
        let (mut runs, mut rest) = (Vec::new(), bytes.as_slice());
        while !rest.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let scale = [3, 300, 5000, 30_000][(state >> 33) as usize % 4];
            let (run, next) = rest.split_at(((state >> 40) as usize % scale).min(rest.len()));
            runs.push(run);
            rest = next;
        }
        for max in [1, 100, 4096, 16384] {
            let (lengths, sealed) = records(&runs, max);
            assert!(lengths.iter().all(|&length| (1..=max).contains(&length)), "{lengths:?}");
            assert_eq!(sealed, bytes);
        }
    }
}

#[test]
fn no_run_and_empty_runs_make_no_record() {
    assert_eq!(records(&[], 100), (Vec::new(), Vec::new()));
    assert_eq!(records(&[b"", b""], 100), (Vec::new(), Vec::new()));
}
