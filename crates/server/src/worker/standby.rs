//! A worker's part of serving the listening sockets of processes that are gone.

use cannery_eventloop::EventLoop;

use super::Worker;
use crate::process::Vacancies;

/// The most listeners that an event loop can tell apart.
const LISTENERS_MAX: usize = 256;

/// The listeners of other processes, which are the last of a worker's.
pub(super) struct Standbys {
    vacancies: Vacancies,
    /// The number of the first of them.
    first: usize,
    /// For each, its process and whether it is watched.
    entries: Vec<(usize, bool)>,
}

impl Standbys {
    /// Of these processes, one for each listener that follows the `first` ones. Returns as many as an event loop can tell
    /// apart.
    pub(super) fn new(
        first: usize,
        processes: impl Iterator<Item = usize>,
        vacancies: Vacancies,
    ) -> Standbys {
        let entries = processes.take(LISTENERS_MAX.saturating_sub(first)).map(|process| (process, false));
        Standbys { vacancies, first, entries: entries.collect() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a listener is watched: always one of the worker's own.
    pub(super) fn is_watched(&self, number: usize) -> bool {
        number < self.first || self.entries.get(number - self.first).is_some_and(|(_, watched)| *watched)
    }
}

impl<L: EventLoop> Worker<L> {
    /// Begins to accept where a process is gone, and ends it where one is there again.
    pub(super) fn watch_vacant(&mut self) {
        for place in 0..self.standbys.entries.len() {
            let (process, is_watched) = self.standbys.entries[place];
            let is_vacant = self.standbys.vacancies.is_vacant(process);
            if is_vacant == is_watched {
                continue;
            }
            let number = self.standbys.first + place;
            let id = u32::try_from(number).expect("there are no more than an event loop can tell apart");
            self.standbys.entries[place].1 = is_vacant;
            if is_vacant {
                // If the kernel can't watch it, its connections wait until the process is there again.
                self.standbys.entries[place].1 =
                    self.events.add_listener(&self.listeners[number], id).is_ok();
            } else {
                // If that fails, it was not watched.
                let _ = self.events.remove_listener(&self.listeners[number]);
                // This worker may have been woken for connections that nobody else is woken for.
                self.accept(id, usize::MAX);
            }
        }
    }
}
