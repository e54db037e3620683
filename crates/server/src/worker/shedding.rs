//! Load shedding: closes connections when they take too much memory in total.
//!
//! Typically, this happens if clients send many pipelined requests without reading the responses, or read too
//! slowly.

use std::time::{Duration, Instant};

use cannery_eventloop::EventLoop;

use super::Worker;
use super::accepting::Backlog;
use crate::connection::Connection;
use crate::context::ShedGoal;
use crate::http3::Http3;
use crate::notice::Notice;
use crate::observe::CloseReason;

/// Minimum time between two notices about closed connections.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Size classes: one for each power of two, plus one for zero.
const CLASSES: usize = 33;

/// Returns the size class of a connection that takes `bytes`.
fn class(bytes: u32) -> usize {
    (u32::BITS - bytes.leading_zeros()) as usize
}

impl<L: EventLoop> Worker<L> {
    /// Returns `true` if the worker can accept another connection.
    pub(super) fn has_place(&self) -> bool {
        self.open_connections() < self.connections_max && !self.cx.memory.is_tight()
    }

    /// Closes connections if they take more memory than they may.
    #[inline]
    pub(super) fn check_memory(&mut self) {
        self.count_kept();
        if self.cx.memory.is_over() {
            self.shed(ShedGoal::Memory);
        }
    }

    /// Updates the number of bytes that others keep for the connections.
    #[inline]
    fn count_kept(&mut self) {
        self.cx.memory.set_received(self.events.kept_bytes());
        self.cx.count_handled();
    }

    /// Makes room for waiting clients and for handlers. If necessary, free memory is also returned to the system.
    pub(super) fn tick_memory(&mut self) {
        let has_refused = self.cx.routes.as_ref().is_some_and(|routes| routes.take_refused());
        let is_wanted = self.backlog == Backlog::Full || has_refused;
        if is_wanted && self.cx.memory.is_tight() {
            self.shed(ShedGoal::Memory);
        }
        // Clients that take what handlers write must not be held up for long by others that don't.
        if self.cx.memory.is_stalled() {
            self.shed(ShedGoal::Handled);
        }
        if self.cx.memory.tick() {
            cannery_eventloop::release_free_memory();
        }
    }

    /// Closes connections (including HTTP/3 connections) until there is room, starting with the largest. This
    /// must not allocate any memory itself.
    #[cold]
    fn shed(&mut self, goal: ShedGoal) {
        self.send_batch();
        if let Some(http3) = &mut self.http3 {
            http3.remove_closed(&mut self.cx);
        }
        // That may have been enough. Closed connections have no bytes of handlers, though.
        if matches!(goal, ShedGoal::Memory) && !self.cx.memory.is_tight() {
            return;
        }

        // Sum up the memory for each size class. Sorting the connections is not an option as that would take
        // memory.
        let mut class_bytes = [0; CLASSES];
        let mut handled = 0;
        let tcp = self.connections.iter().map(|(_, connection)| connection.total_memory());
        for memory in tcp.chain(self.http3.iter().flat_map(Http3::connection_memory)) {
            let bytes = goal.bytes(memory);
            class_bytes[class(bytes)] += u64::from(bytes);
            handled += u64::from(memory.handled);
        }
        // Responses that are still on their way count, but closing connections doesn't free them. Without this, one large response
        // could reset all connections.
        self.cx.memory.set_delivered(handled);

        // Find the smallest class that we have to close connections of. All larger classes must go,
        // too.
        let all: u64 = class_bytes.iter().sum();
        let excess = self.cx.memory.excess(goal).min(all);
        let mut sum = 0;
        let lowest = (0..CLASSES).rev().find(|class| {
            sum += class_bytes[*class];
            sum >= excess
        });

        let mut closed = 0;
        for class_now in (lowest.unwrap_or(CLASSES)..CLASSES).rev() {
            let mut slot = 0;
            let is_of_class =
                |connection: &Connection<_>| class(goal.bytes(connection.total_memory())) == class_now;
            while self.cx.memory.excess(goal) > 0
                && let Some(token) = self.connections.find_from(slot, is_of_class)
            {
                slot = token.slot + 1;
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.abandon();
                }
                self.end(token, CloseReason::Shed);
                self.count_kept();
                closed += 1;
            }
            if let Some(http3) = &mut self.http3 {
                closed += http3.shed(goal, |memory| class(goal.bytes(memory)) == class_now, &mut self.cx);
            }
        }

        let notice = self.shed_log.count(closed, self.cx.memory.bytes_max(), self.cx.clock.now);
        if let Some((notice, notices)) = notice.zip(self.notices.as_ref()) {
            // We can ignore an error here: the receiving thread may have stopped already.
            let _ = notices.send(notice);
        }
    }
}

/// Counts closed connections, and notifies the operator from time to time.
#[derive(Debug, Default)]
pub(super) struct ShedLog {
    /// Connections closed since the last notice.
    connections: usize,
    last_notice: Option<Instant>,
}

impl ShedLog {
    /// Counts closed connections. Returns a notice, unless the last one was only a short time ago.
    fn count(&mut self, connections: usize, limit_bytes: u64, now: Instant) -> Option<Notice> {
        self.connections += connections;
        let is_recent =
            self.last_notice.is_some_and(|last| now.saturating_duration_since(last) < NOTICE_INTERVAL);
        if self.connections == 0 || is_recent {
            return None;
        }
        self.last_notice = Some(now);
        Some(Notice::Shed { connections: std::mem::take(&mut self.connections), limit_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class() {
        assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(class), [0, 1, 2, 2, 3, CLASSES - 1]);
    }

    #[test]
    fn notices_count_the_connections_between_them() {
        let mut log = ShedLog::default();
        let start = Instant::now();
        let mut count = |connections, seconds| {
            log.count(connections, 1 << 20, start + Duration::from_secs(seconds))
                .map(|notice| notice.to_string())
        };
        assert_eq!(count(0, 0), None);
        assert!(count(1, 0).unwrap().starts_with("1 connection was closed"));
        assert_eq!(count(3, 1), None);
        assert!(count(4, 10).unwrap().starts_with("7 connections were closed"));
        assert_eq!(count(0, 30), None);
    }
}
