//! A virtual clock for threads that take turns: the one whose time comes first runs, and the others wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use super::{World, lock};
use crate::commands::release_dir::{Release, ReleaseDir};
use crate::commands::releases::Clock;

/// The tasks, by number.
pub(super) struct Turns {
    schedule: Mutex<Schedule>,
    seats: Vec<Seat>,
    end: Duration,
}

struct Schedule {
    now: Duration,
    /// When waiting tasks go on.
    waiting: BinaryHeap<Reverse<(Duration, usize)>>,
}

/// The thread of a task.
#[derive(Default)]
struct Seat {
    thread: OnceLock<Thread>,
    is_its_turn: AtomicBool,
}

/// The turn of a task. Another one goes on once it is dropped, also in a panic.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// All tasks begin at the start, in order.
    pub(super) fn new(tasks: usize, end: Duration) -> Turns {
        let waiting = (0..tasks).map(|task| Reverse((Duration::ZERO, task))).collect();
        let turns = Turns {
            schedule: Mutex::new(Schedule { now: Duration::ZERO, waiting }),
            seats: std::iter::repeat_with(Seat::default).take(tasks).collect(),
            end,
        };
        turns.pass_on();
        turns
    }

    /// Waits for the first turn of a task.
    pub(super) fn begin(&self, task: usize) -> Turn<'_> {
        let _ = self.seats[task].thread.set(thread::current());
        self.wait(task);
        Turn(self)
    }

    pub(super) fn now(&self) -> Duration {
        lock(&self.schedule).now
    }

    pub(super) fn end(&self) -> Duration {
        self.end
    }

    pub(super) fn sleep(&self, task: usize, time: Duration) {
        if time.is_zero() {
            return;
        }
        let mut schedule = lock(&self.schedule);
        let until = schedule.now + time;
        schedule.waiting.push(Reverse((until, task)));
        drop(schedule);
        self.pass_on();
        self.wait(task);
    }

    fn wait(&self, task: usize) {
        while !self.seats[task].is_its_turn.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }

    fn pass_on(&self) {
        let mut schedule = lock(&self.schedule);
        let Some(Reverse((now, task))) = schedule.waiting.pop() else { return };
        schedule.now = now;
        drop(schedule);
        let seat = &self.seats[task];
        seat.is_its_turn.store(true, Ordering::SeqCst);
        // A thread that hasn't begun yet looks before it waits.
        if let Some(thread) = seat.thread.get() {
            thread.unpark();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

/// The clock of a node. All releases are new to it.
pub(super) struct VirtualClock {
    world: Arc<World>,
    task: usize,
}

impl VirtualClock {
    pub(super) fn new(world: &Arc<World>, task: usize) -> VirtualClock {
        VirtualClock { world: Arc::clone(world), task }
    }
}

impl Clock for VirtualClock {
    fn age(&self, _: &ReleaseDir, _: &Release) -> Duration {
        Duration::ZERO
    }

    fn sleep(&mut self, time: Duration) {
        self.world.turns.sleep(self.task, time);
    }
}
