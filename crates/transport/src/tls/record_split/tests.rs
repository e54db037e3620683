//! Unit tests of splitting content into records.

use super::*;

/// Splits `runs` into records of at most `max` bytes. Returns their lengths, and their content.
fn split(runs: &[&[u8]], max: usize) -> (Vec<usize>, Vec<u8>) {
    let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
    let mut runs = Runs::new(&runs);
    let mut lengths = Vec::new();
    let mut bytes = Vec::new();
    while runs.remaining() > 0 {
        let length = runs.next_length(max);
        lengths.push(length);
        match runs.take_contiguous(length) {
            Some(contiguous) => bytes.extend_from_slice(contiguous),
            None => {
                let start = bytes.len();
                bytes.resize(start + length, 0);
                runs.copy_to(&mut bytes[start..]);
            }
        }
    }
    (lengths, bytes)
}

#[test]
fn short_runs_fill_records() {
    let run = [1; 1000];
    let (lengths, bytes) = split(&[&run[..]; 40], limits::CONTENT_BYTES_MAX);
    assert_eq!(lengths, [16384, 16384, 40_000 - 2 * 16384]);
    assert_eq!(bytes, [1; 40_000]);
}

#[test]
fn long_run_does_not_share_its_records() {
    let head = [1; 200];
    let body = [2; 40_000];
    let (lengths, _) = split(&[&head, &body, &head, &head], limits::CONTENT_BYTES_MAX);
    assert_eq!(lengths, [200, 16384, 16384, 40_000 - 2 * 16384, 400]);
}

#[test]
fn small_record_is_filled_from_any_runs() {
    let head = [1; 200];
    let body = [2; 10_000];
    let (lengths, bytes) = split(&[&head, &body], limits::FIRST_CONTENT_BYTES);
    assert_eq!(lengths, [4096, 4096, 10_200 - 2 * 4096]);
    assert_eq!((bytes[199], bytes[200]), (1, 2));
}

#[test]
fn bytes_keep_their_order_for_random_runs() {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let mut state = 1_u64;
    for _ in 0..300 {
        let mut runs = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let scale = [3, 300, 5000, 30_000][(state >> 33) as usize % 4];
            let (run, next) = rest.split_at(((state >> 40) as usize % scale).min(rest.len()));
            runs.push(run);
            rest = next;
        }
        for max in [1, 100, 4096, 16384] {
            let (lengths, content) = split(&runs, max);
            assert!(lengths.iter().all(|&length| (1..=max).contains(&length)), "{lengths:?}");
            assert_eq!(content, bytes);
        }
    }
}

#[test]
fn empty_runs_yield_no_record() {
    assert_eq!(split(&[], 100), (Vec::new(), Vec::new()));
    assert_eq!(split(&[b"", b""], 100), (Vec::new(), Vec::new()));
}
