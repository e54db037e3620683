//! Runs jobs in parallel, but returns their results in order to keep the archive independent of
//! timing.
//!
//! Workers take jobs in order. The calling thread commits results in the same order and holds back those that come early. While a
//! slow job is running, results might pile up, so there is a limit on the number of held bytes.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Number of workers.
    pub(crate) threads: usize,
    /// Maximum number of bytes held by jobs and results when another job is started. A job that is larger than this will run
    /// alone.
    pub(crate) held_bytes_max: u64,
}

/// Jobs in the order in which to commit their results.
pub(crate) struct Jobs<'j, J, W> {
    pub(crate) all: &'j [J],
    /// Returns the number of bytes that a running job holds.
    pub(crate) held_bytes: W,
}

/// Runs all jobs and commits their results in order.
///
/// `scratch` creates the state of a worker. It will be reused for all of the worker's jobs. `work` returns a result and the
/// number of bytes that it will hold until it is committed.
///
/// # Errors
///
/// If several jobs fail, this returns the first error in job order. At this point, all earlier results have
/// been committed, but none of the later ones.
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
        // When a commit panics, the workers must not wait for room forever.
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

/// Shared by workers and the committing thread.
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
    /// Number of jobs that have started; `committed <= begun`.
    begun: usize,
    /// Number of jobs that have been committed.
    committed: usize,
    /// Bytes held by running jobs and waiting results.
    held: u64,
    /// Results waiting to be committed, with the bytes they hold.
    waiting: BTreeMap<usize, (Result<R, E>, u64)>,
    stopped: bool,
}

impl<R, E> Queue<R, E> {
    fn new(held_bytes_max: u64, jobs: usize) -> Self {
        let state = State { begun: 0, committed: 0, held: 0, waiting: BTreeMap::new(), stopped: false };
        Queue { state: Mutex::new(state), room: Condvar::new(), result: Condvar::new(), held_bytes_max, jobs }
    }

    /// Waits until there is room for the next job, then returns it. Returns `None` after the last
    /// one.
    fn take(&self, weight: impl Fn(usize) -> u64) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.begun == self.jobs {
                return None;
            }
            let bytes = weight(state.begun);
            // If all started jobs have been committed, no other thread is left to wake us up, so the next one must be
            // taken in any case.
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
        // The state is only changed by plain assignments, so it should be consistent even after
        // another thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the run if this thread panics.
///
/// Otherwise, the other threads would wait for its result forever.
struct StopOnPanic<'q, R, E>(&'q Queue<R, E>);

impl<R, E> Drop for StopOnPanic<'_, R, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests;
