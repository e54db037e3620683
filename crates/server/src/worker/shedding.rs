//! Closes connections when all of them together keep too much memory.
//!
//! A connection that keeps much belongs to a client that pipelines and does not read, or reads too slowly.

use cannery_eventloop::EventLoop;

use super::Worker;
use super::accepting::Crowding;
use crate::connection::Connection;
use crate::observe::Closed;

/// Sizes of connections are told apart by their powers of two.
const CLASSES: usize = 33;

/// The class of a connection that keeps so many bytes.
fn class(bytes: u32) -> usize {
    (u32::BITS - bytes.leading_zeros()) as usize
}

impl<L: EventLoop> Worker<L> {
    /// Whether one more connection may be accepted.
    pub(super) fn has_place(&self) -> bool {
        self.connections.len() < self.connections_max && !self.shared.memory.is_tight()
    }

    /// Makes room if connections keep more memory than they may.
    #[inline]
    pub(super) fn check_memory(&mut self) {
        if self.shared.memory.is_over() {
            self.shed();
        }
    }

    /// Makes room for those who wait to be accepted, and returns memory that is not used any more.
    pub(super) fn tick_memory(&mut self) {
        if self.crowding == Crowding::Full && self.shared.memory.is_tight() {
            self.shed();
        }
        if self.shared.memory.is_to_be_released() {
            self.shared.memory.set_released();
            cannery_eventloop::release_free_memory();
        }
    }

    /// Closes connections until there is room, those first that keep most. Allocates nothing.
    #[cold]
    fn shed(&mut self) {
        self.send_due();
        let mut bytes_of_class = [0; CLASSES];
        for (_, connection) in self.connections.iter() {
            let bytes = connection.memory_with_received();
            bytes_of_class[class(bytes)] += u64::from(bytes);
        }

        // The classes that must be closed, from the largest on.
        let excess = self.shared.memory.excess();
        let mut sum = 0;
        let least = (0..CLASSES).rev().find(|class| {
            sum += bytes_of_class[*class];
            sum >= excess
        });
        for class_now in (least.unwrap_or(0)..CLASSES).rev() {
            let mut slot = 0;
            let is_of_class =
                |connection: &Connection<_>| class(connection.memory_with_received()) == class_now;
            while self.shared.memory.excess() > 0
                && let Some(token) = self.connections.find_from(slot, is_of_class)
            {
                slot = token.slot + 1;
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.abandon();
                }
                self.end(token, Closed::Shed);
                self.shared.memory.set_received(self.events.kept_bytes());
            }
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
