//! Unit tests of work on several threads with results in order.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn limits(threads: usize, held_bytes_max: u64) -> Limits {
    Limits { threads, held_bytes_max }
}

fn squares(limits: Limits, count: u64) -> Result<Vec<u64>, u64> {
    let jobs: Vec<u64> = (0..count).collect();
    let mut committed = Vec::new();
    run(
        limits,
        &Jobs { all: &jobs, held_bytes: |_: &u64| 10 },
        || (),
        |(), job| Ok::<_, u64>((job * job, 5)),
        |_, square| {
            committed.push(square);
            Ok(())
        },
    )?;
    Ok(committed)
}

#[test]
fn results_come_in_the_order_of_the_jobs() {
    for threads in [1, 2, 7] {
        for held_bytes_max in [0, 10, 1000] {
            let expected: Vec<u64> = (0..500).map(|n| n * n).collect();
            assert_eq!(squares(limits(threads, held_bytes_max), 500), Ok(expected), "{threads} threads");
        }
    }
}

#[test]
fn no_jobs_are_no_work() {
    assert_eq!(squares(limits(4, 100), 0), Ok(Vec::new()));
}

#[test]
fn first_error_in_order_ends_the_run() {
    let jobs: Vec<u64> = (0..100).collect();
    let mut committed = 0;
    let work = |(): &mut (), job: &u64| if *job >= 40 { Err(*job) } else { Ok(((), 0)) };
    let outcome = run(
        limits(4, 1000),
        &Jobs { all: &jobs, held_bytes: |_: &u64| 1 },
        || (),
        work,
        |_, ()| {
            committed += 1;
            Ok(())
        },
    );
    assert_eq!((outcome, committed), (Err(40), 40));
}

#[test]
fn held_bytes_are_limited() {
    let held = AtomicU64::new(0);
    let jobs: Vec<u64> = (0..200).collect();
    let work = |(): &mut (), _: &u64| {
        let now = held.fetch_add(10, Ordering::SeqCst) + 10;
        assert!(now <= 30, "{now} bytes are held");
        Ok::<_, ()>(((), 10))
    };
    let commit = |_: &u64, ()| {
        held.fetch_sub(10, Ordering::SeqCst);
        Ok(())
    };
    // Results count until commit is called, so during the call there may be one more.
    run(limits(4, 20), &Jobs { all: &jobs, held_bytes: |_: &u64| 10 }, || (), work, commit).unwrap();
}

#[test]
fn panic_of_a_worker_ends_the_run_with_a_panic() {
    let outcome = std::panic::catch_unwind(|| {
        let jobs = [1, 2, 3];
        let work = |(): &mut (), job: &i32| {
            assert!(*job != 2, "on purpose");
            Ok::<_, ()>(((), 0))
        };
        run(limits(2, 100), &Jobs { all: &jobs, held_bytes: |_: &i32| 1 }, || (), work, |_, ()| Ok(()))
    });
    assert!(outcome.is_err());
}
