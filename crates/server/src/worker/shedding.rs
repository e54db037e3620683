//! Load shedding: closes connections if all of them together keep too much memory.
//!
//! A connection keeps much memory if its client pipelines requests and doesn't read, or reads too slowly.

use cannery_eventloop::EventLoop;

use super::Worker;
use super::accepting::Backlog;
use crate::connection::Connection;
use crate::observe::CloseReason;

/// Size classes of connections: one for each power of two.
const CLASSES: usize = 33;

/// Returns the size class of a connection that keeps `bytes`.
fn class(bytes: u32) -> usize {
    (u32::BITS - bytes.leading_zeros()) as usize
}

impl<L: EventLoop> Worker<L> {
    /// Returns `true` if one more connection may be accepted.
    pub(super) fn has_place(&self) -> bool {
        self.open_connections() < self.connections_max && !self.cx.memory.is_tight()
    }

    /// Closes connections if they keep more memory than they may.
    #[inline]
    pub(super) fn check_memory(&mut self) {
        if self.cx.memory.is_over() {
            self.shed();
        }
    }

    /// Makes room for clients that wait to be accepted, and returns free memory to the system.
    pub(super) fn tick_memory(&mut self) {
        if self.backlog == Backlog::Full && self.cx.memory.is_tight() {
            self.shed();
        }
        if self.cx.memory.tick() {
            cannery_eventloop::release_free_memory();
        }
    }

    /// Closes connections until there is room, starting with those that keep most. It doesn't allocate.
    #[cold]
    fn shed(&mut self) {
        self.send_batch();
        let mut class_bytes = [0; CLASSES];
        for (_, connection) in self.connections.iter() {
            let bytes = connection.memory_with_received();
            class_bytes[class(bytes)] += u64::from(bytes);
        }

        // The largest classes must close, down to this one.
        let excess = self.cx.memory.excess();
        let mut sum = 0;
        let lowest = (0..CLASSES).rev().find(|class| {
            sum += class_bytes[*class];
            sum >= excess
        });
        for class_now in (lowest.unwrap_or(0)..CLASSES).rev() {
            let mut slot = 0;
            let is_of_class =
                |connection: &Connection<_>| class(connection.memory_with_received()) == class_now;
            while self.cx.memory.excess() > 0
                && let Some(token) = self.connections.find_from(slot, is_of_class)
            {
                slot = token.slot + 1;
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.abandon();
                }
                self.end(token, CloseReason::Shed);
                self.cx.memory.set_received(self.events.kept_bytes());
            }
        }
        if let Some(http3) = &mut self.http3 {
            http3.shed(&mut self.cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class() {
        assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(class), [0, 1, 2, 2, 3, CLASSES - 1]);
    }
}
