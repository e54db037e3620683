//! Keeps track of the threads that write bodies, including the bodies that occupy them and the time for
//! which others have been waiting. The same goes for the threads that read uploads.
//!
//! A body occupies its thread for as long as the client is receiving it, possibly at a slow rate. While
//! other bodies are waiting, each one only gets a limited time. Otherwise, a few slow clients could make
//! everyone else wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cannery_routes::{BodyStopper, ContentStopper};

use super::limits::{BODY_OCCUPIES_MAX, BODY_WAITS_MAX};

/// Once stopped, a body should leave its thread within this time. Since the function might never return,
/// another body is stopped after that.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// Ends a body or an upload.
#[derive(Debug)]
pub(super) enum Stopper {
    Body(BodyStopper),
    Upload(ContentStopper),
}

impl Stopper {
    fn stop(&self) {
        match self {
            Stopper::Body(stopper) => stopper.stop(),
            Stopper::Upload(stopper) => stopper.stop(),
        }
    }
}

/// Bodies, or uploads, that have a thread or are waiting for one.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyThreads(Arc<Mutex<Bodies>>);

#[derive(Debug, Default)]
struct Bodies {
    /// Bodies that occupy a thread, oldest first.
    occupants: VecDeque<Occupant>,
    /// Bodies without a thread, in the order in which they will get one.
    waiting: VecDeque<Waiting>,
    last_number: u64,
}

impl Bodies {
    /// Forgets that a body waits. Threads take jobs in their order, but others may have entered meanwhile.
    fn stop_waiting(&mut self, is_wanted: &Weak<()>) {
        if let Some(position) = self.waiting.iter().position(|waiting| waiting.is_wanted.ptr_eq(is_wanted)) {
            self.waiting.remove(position);
        }
    }
}

/// A body that waits for a thread.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// Can be upgraded while the connection is expecting the response.
    is_wanted: Weak<()>,
}

/// A body that occupies a thread.
#[derive(Debug)]
struct Occupant {
    number: u64,
    since: Instant,
    stopper: Stopper,
    /// When we stopped the body. The function might not have noticed yet.
    stopped_at: Option<Instant>,
    /// The handler of an upload.
    handler: Option<UploadHandler>,
}

#[derive(Debug)]
struct UploadHandler {
    /// The number that its thread stores.
    call: Arc<AtomicU64>,
    /// Can be upgraded while the connection is expecting the response.
    is_wanted: Weak<()>,
    /// When a check first found that no client expects the response.
    unwanted_since: Option<Instant>,
    is_reported: bool,
}

/// A handler that has not returned after the end of its upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LateHandler {
    /// The number that its thread stores.
    pub(super) call: u64,
    /// Time since the end.
    pub(super) after: Duration,
}

/// Bodies that were stopped because others were waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped {
    pub(super) bodies: usize,
    /// Time for which the last of them has occupied its thread.
    pub(super) after: Duration,
}

impl BodyThreads {
    fn lock(&self) -> MutexGuard<'_, Bodies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to wait for a thread. Returns `false` if others have already been waiting for too long.
    pub(super) fn enter(&self, now: Instant, is_wanted: Weak<()>) -> bool {
        let mut bodies = self.lock();
        let is_slow = bodies.waiting.front().is_some_and(|first| now >= first.since + BODY_WAITS_MAX);
        if !is_slow {
            bodies.waiting.push_back(Waiting { since: now, is_wanted });
        }
        !is_slow
    }

    /// Undoes [`enter`](Self::enter) because the job was not queued.
    pub(super) fn leave(&self, is_wanted: &Weak<()>) {
        self.lock().stop_waiting(is_wanted);
    }

    /// Must be called when the next body gets a thread. Returns the body's number.
    pub(super) fn occupy(&self, now: Instant, stopper: Stopper, is_wanted: &Weak<()>) -> u64 {
        self.add(now, stopper, is_wanted, None)
    }

    /// Like [`occupy`](Self::occupy), for an upload. Its thread stores a number in `call` while it runs the handler.
    pub(super) fn occupy_upload(
        &self,
        now: Instant,
        stopper: ContentStopper,
        call: Arc<AtomicU64>,
        is_wanted: Weak<()>,
    ) -> u64 {
        let wanted = Weak::clone(&is_wanted);
        let handler = UploadHandler { call, is_wanted, unwanted_since: None, is_reported: false };
        self.add(now, Stopper::Upload(stopper), &wanted, Some(handler))
    }

    fn add(
        &self,
        now: Instant,
        stopper: Stopper,
        is_wanted: &Weak<()>,
        handler: Option<UploadHandler>,
    ) -> u64 {
        let mut bodies = self.lock();
        bodies.stop_waiting(is_wanted);
        bodies.last_number += 1;
        let number = bodies.last_number;
        bodies.occupants.push_back(Occupant { number, since: now, stopper, stopped_at: None, handler });
        number
    }

    /// Must be called when a body leaves its thread.
    pub(super) fn vacate(&self, number: u64) {
        self.lock().occupants.retain(|occupant| occupant.number != number);
    }

    /// Stops bodies that have had a thread for too long, but no more of them than are waiting for
    /// one.
    pub(super) fn make_room(&self, now: Instant) -> Option<Stopped> {
        let mut bodies = self.lock();
        // Some threads might be about to become free anyway.
        let is_leaving =
            |occupant: &&Occupant| occupant.stopped_at.is_some_and(|at| now < at + LEAVES_WITHIN);
        let leaving = bodies.occupants.iter().filter(is_leaving).count();
        let expected = bodies.waiting.iter().filter(|waiting| waiting.is_wanted.strong_count() > 0).count();
        // Those that no client expects any more return at once, so a single thread is enough for all of them.
        let wanted = expected.max(usize::from(!bodies.waiting.is_empty())).saturating_sub(leaving);

        let late = |occupant: &&mut Occupant| {
            occupant.stopped_at.is_none()
                && now.saturating_duration_since(occupant.since) >= BODY_OCCUPIES_MAX
        };

        let mut stopped = None;
        for (bodies, occupant) in (1..).zip(bodies.occupants.iter_mut().filter(late).take(wanted)) {
            occupant.stopped_at = Some(now);
            occupant.stopper.stop();
            stopped = Some(Stopped { bodies, after: now.saturating_duration_since(occupant.since) });
        }
        stopped
    }

    /// Returns handlers that have not returned although we have stopped their upload, or although no client has expected the response for
    /// `unwanted_max`. Each is returned only once.
    pub(super) fn late_handlers(&self, now: Instant, unwanted_max: Duration) -> Vec<LateHandler> {
        let mut bodies = self.lock();
        let mut late = Vec::new();
        for Occupant { stopped_at, handler, .. } in &mut bodies.occupants {
            let Some(handler) = handler else { continue };
            if handler.is_wanted.strong_count() == 0 {
                handler.unwanted_since.get_or_insert(now);
            }
            let after = |since: Option<Instant>, max: Duration| {
                since.map(|since| now.saturating_duration_since(since)).filter(|after| *after >= max)
            };
            let after = after(*stopped_at, LEAVES_WITHIN).max(after(handler.unwanted_since, unwanted_max));
            let call = handler.call.load(Ordering::Relaxed);
            if let Some(after) = after
                && call != 0
                && !std::mem::replace(&mut handler.is_reported, true)
            {
                late.push(LateHandler { call, after });
            }
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use cannery_routes::{BodyWriter, body_channel};

    use super::*;

    /// Starts to wait for a thread, for a client that expects the response for the rest of the test.
    fn enter(threads: &BodyThreads, now: Instant) -> bool {
        threads.enter(now, wanted())
    }

    fn wanted() -> Weak<()> {
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        std::mem::forget(wanted);
        is_wanted
    }

    /// Occupies a thread at this time.
    fn occupy(threads: &BodyThreads, now: Instant) -> (u64, BodyWriter) {
        let is_wanted = wanted();
        assert!(threads.enter(now, Weak::clone(&is_wanted)));
        let (writer, reader) = body_channel();
        // If we dropped the reader, that would end the body.
        std::mem::forget(reader);
        (threads.occupy(now, Stopper::Body(writer.stopper()), &is_wanted), writer)
    }

    #[test]
    fn oldest_bodies_end_while_others_wait() {
        let threads = BodyThreads::default();
        let start = Instant::now();
        let second = |seconds| start + Duration::from_secs(seconds);
        let bodies: Vec<_> = (0..3).map(|number| occupy(&threads, second(number))).collect();
        assert_eq!(threads.make_room(second(1000)), None, "no body waits");

        assert!(enter(&threads, second(1000)));
        let stopped = threads.make_room(second(1000));
        assert_eq!(stopped, Some(Stopped { bodies: 1, after: Duration::from_secs(1000) }));
        let cancelled = || bodies.iter().map(|(_, writer)| writer.is_cancelled()).collect::<Vec<_>>();
        assert_eq!(cancelled(), [true, false, false]);
        assert_eq!(threads.make_room(second(1001)), None, "its thread is about to be free");

        threads.vacate(bodies[0].0);
        assert_eq!(threads.make_room(second(1002)).map(|stopped| stopped.bodies), Some(1), "it was not");
    }

    #[test]
    fn clients_that_have_gone_end_one_body_at_most() {
        let threads = BodyThreads::default();
        let start = Instant::now();
        let bodies: Vec<_> = (0..3).map(|_| occupy(&threads, start)).collect();
        let late = start + BODY_OCCUPIES_MAX;
        for _ in 0..3 {
            assert!(threads.enter(late, Weak::new()));
        }
        // One thread is enough for all of them.
        assert_eq!(threads.make_room(late).map(|stopped| stopped.bodies), Some(1));
        assert!(!bodies[1].1.is_cancelled());
    }

    #[test]
    fn body_that_never_returns_blocks_no_other() {
        let threads = BodyThreads::default();
        let start = Instant::now();
        let bodies: Vec<_> = (0..2).map(|_| occupy(&threads, start)).collect();
        let late = start + BODY_OCCUPIES_MAX;
        assert!(enter(&threads, late));
        assert_eq!(threads.make_room(late).map(|stopped| stopped.bodies), Some(1));
        assert_eq!(threads.make_room(late + LEAVES_WITHIN / 2), None);
        assert!(!bodies[1].1.is_cancelled());
        assert_eq!(threads.make_room(late + LEAVES_WITHIN).map(|stopped| stopped.bodies), Some(1));
        assert!(bodies[1].1.is_cancelled());
        assert_eq!(threads.make_room(late + 2 * LEAVES_WITHIN), None, "no body is ended twice");
    }

    #[test]
    fn short_bodies_are_not_ended() {
        let threads = BodyThreads::default();
        let start = Instant::now();
        let (_, writer) = occupy(&threads, start);
        assert!(enter(&threads, start));
        assert_eq!(threads.make_room(start + BODY_OCCUPIES_MAX - Duration::from_secs(1)), None);
        assert!(!writer.is_cancelled());
    }

    #[test]
    fn long_queue_refuses_bodies() {
        let threads = BodyThreads::default();
        let start = Instant::now();
        let is_wanted = wanted();
        assert!(threads.enter(start, Weak::clone(&is_wanted)));
        assert!(enter(&threads, start + BODY_WAITS_MAX / 2));
        assert!(!enter(&threads, start + BODY_WAITS_MAX));
        let (writer, _reader) = body_channel();
        threads.occupy(start + BODY_WAITS_MAX, Stopper::Body(writer.stopper()), &is_wanted);
        assert!(enter(&threads, start + BODY_WAITS_MAX), "the first one has a thread");
    }
}
