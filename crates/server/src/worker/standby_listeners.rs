//! Serves the listening sockets of other processes while those are down.

use cannery_eventloop::EventLoop;

use super::Worker;
use crate::process::DownProcesses;

/// Maximum number of listeners that an event loop can number.
const LISTENERS_MAX: usize = 256;

/// Listeners of other processes. They are numbered after the worker's own.
pub(super) struct StandbyListeners {
    down_processes: DownProcesses,
    /// Number of the first entry.
    first: usize,
    entries: Vec<Entry>,
}

/// The listener of another process.
struct Entry {
    process: usize,
    is_watched: bool,
}

impl StandbyListeners {
    /// Creates an entry for each process in `processes`, numbered from `first`. Stops at [`LISTENERS_MAX`].
    pub(super) fn new(
        first: usize,
        processes: impl Iterator<Item = usize>,
        down_processes: DownProcesses,
    ) -> StandbyListeners {
        let entries = processes
            .take(LISTENERS_MAX.saturating_sub(first))
            .map(|process| Entry { process, is_watched: false });
        StandbyListeners { down_processes, first, entries: entries.collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the listener is being watched. This is always the case for the worker's own.
    pub(super) fn is_watched(&self, number: usize) -> bool {
        number < self.first || self.entries.get(number - self.first).is_some_and(|entry| entry.is_watched)
    }
}

impl<L: EventLoop> Worker<L> {
    /// Starts watching the listeners of processes that went down and stops watching those of processes that
    /// are back.
    pub(super) fn update_standbys(&mut self) {
        for index in 0..self.standbys.entries.len() {
            let Entry { process, is_watched } = self.standbys.entries[index];
            let is_down = self.standbys.down_processes.contains(process);
            if is_down == is_watched {
                continue;
            }

            let number = self.standbys.first + index;
            let id = u32::try_from(number).expect("an event loop has a number for each");
            let listener = &self.listeners[number].1;
            if is_down {
                // If the kernel cannot watch it, the clients will have to wait until the process is restarted.
                self.standbys.entries[index].is_watched = self.events.add_listener(listener, id).is_ok();
            } else {
                self.standbys.entries[index].is_watched = false;
                // This only fails if the listener was not being watched.
                let _ = self.events.remove_listener(listener);
                // The kernel might have woken only this worker for the waiting clients.
                self.accept(id, usize::MAX);
            }
        }
    }
}
