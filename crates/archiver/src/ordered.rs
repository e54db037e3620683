//! Parallel jobs with results in order, so that the archive doesn't depend on timing.
//!
//! Workers take jobs in order. The calling thread commits the results in the same order and holds back early ones. The
//! number of held bytes is limited, so results can't pile up behind one slow job.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Number of workers.
    pub(crate) threads: usize,
    /// Maximum number of bytes that jobs and results may hold before another job starts. A larger job runs alone.
    pub(crate) held_bytes_max: u64,
}

/// Jobs, in the order in which their results are committed.
pub(crate) struct Jobs<'j, J, W> {
    pub(crate) all: &'j [J],
    /// Returns the number of bytes that a job holds while it runs.
    pub(crate) held_bytes: W,
}

/// Runs all jobs and commits their results in order.
///
/// `scratch` creates the state that a worker keeps between jobs. `work` returns a result and the number of bytes that it
/// holds until it is committed.
///
/// # Errors
/// Returns the first error in the order of the jobs. All results before it have been committed, and none after it.
pub(crate) fn run<J, W, S, R, E>(
    limits: Limits,
    jobs: &Jobs<'_, J, W>,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &J) -> Result<(R, u64), E> + Sync,
    mut commit: impl FnMut(&J, R) -> Result<(), E>,
) -> Result<(), E>
where
    J: Sync,
    W: Fn(&J) -> u64 + Sync,
    R: Send,
    E: Send,
{
    let Jobs { all: jobs, held_bytes } = jobs;
    let queue = Queue::new(limits.held_bytes_max, jobs.len());
    let worker = || {
        let _stop = StopOnPanic(&queue);
        let mut scratch = scratch();
        while let Some(place) = queue.take(|place| held_bytes(&jobs[place])) {
            let result = work(&mut scratch, &jobs[place]);
            queue.hand_in(place, held_bytes(&jobs[place]), result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..limits.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(worker);
        }
        let _stop = StopOnPanic(&queue);
        for job in *jobs {
            let Some(result) = queue.next_result() else { break };
            let outcome = result.and_then(|result| commit(job, result));
            if outcome.is_err() {
                queue.stop();
                return outcome;
            }
        }
        Ok(())
    })
}

/// State shared by the workers and the committing thread.
struct Queue<R, E> {
    state: Mutex<State<R, E>>,
    /// Signaled when a job may start.
    room: Condvar,
    /// Signaled when the next result is available.
    result: Condvar,
    held_bytes_max: u64,
    jobs: usize,
}

struct State<R, E> {
    /// Number of started jobs; `committed <= begun`.
    begun: usize,
    /// Number of committed jobs.
    committed: usize,
    /// Bytes held by running jobs and waiting results.
    held: u64,
    /// Waiting results, with their bytes.
    waiting: BTreeMap<usize, (Result<R, E>, u64)>,
    stopped: bool,
}

impl<R, E> Queue<R, E> {
    fn new(held_bytes_max: u64, jobs: usize) -> Self {
        let state = State { begun: 0, committed: 0, held: 0, waiting: BTreeMap::new(), stopped: false };
        Queue { state: Mutex::new(state), room: Condvar::new(), result: Condvar::new(), held_bytes_max, jobs }
    }

    /// Returns the next job once there is room for it, or `None` after the last one.
    fn take(&self, weight: impl Fn(usize) -> u64) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.begun == self.jobs {
                return None;
            }
            let bytes = weight(state.begun);
            // If all started jobs are committed, no other thread would wake this one up.
            if state.begun == state.committed || state.held + bytes <= self.held_bytes_max {
                state.held += bytes;
                state.begun += 1;
                return Some(state.begun - 1);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn hand_in(&self, place: usize, weight: u64, result: Result<(R, u64), E>) {
        let (result, bytes) = match result {
            Ok((result, bytes)) => (Ok(result), bytes),
            Err(error) => (Err(error), 0),
        };
        let mut state = self.lock();
        state.held = state.held - weight + bytes;
        state.waiting.insert(place, (result, bytes));
        if place == state.committed {
            self.result.notify_one();
        }
        drop(state);
        self.room.notify_all();
    }

    /// Returns the next result in order, or `None` if a worker has panicked.
    fn next_result(&self) -> Option<Result<R, E>> {
        let mut state = self.lock();
        loop {
            let next = state.committed;
            if let Some((result, bytes)) = state.waiting.remove(&next) {
                state.held -= bytes;
                state.committed += 1;
                drop(state);
                self.room.notify_all();
                return Some(result);
            }
            if state.stopped {
                return None;
            }
            state = self.result.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
        self.result.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<R, E>> {
        // The state is consistent even if a thread has panicked, because it is changed by plain assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run when its thread panics, because others would wait for the result forever.
struct StopOnPanic<'q, R, E>(&'q Queue<R, E>);

impl<R, E> Drop for StopOnPanic<'_, R, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
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
        // A result counts until commit is called, so one more may be held during commit.
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
}
