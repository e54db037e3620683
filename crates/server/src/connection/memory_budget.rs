//! Memory that the connections of a worker keep, and the bound on its sum.
//!
//! Counts what connections keep between events: the beginning of a request, answers that their clients are slow to take, the
//! state of TLS and HTTP/2; and what the event loop has received for connections that do not read. Never frees anything itself: the worker closes connections, those first that keep most.

use std::num::NonZeroUsize;

use cannery_wire::limits::CONNECTIONS_BYTES_MAX;
use rustix::process::{Resource, getrlimit};

/// What the threads of a worker need beside its connections: a stack, buffers, and room for the allocator.
const WORKER_BYTES: u64 = 4 << 20;

/// The least that the connections of a worker may keep: without it none could be served.
const WORKER_CONNECTIONS_BYTES_MIN: u64 = 1 << 20;

/// Sizes below this are not worth a walk through the allocator's free memory.
const RELEASED_BYTES_MIN: u64 = 16 << 20;

/// Memory that the connections of a worker keep.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The sum of what connections keep themselves.
    of_connections: u64,
    /// What the event loop keeps for connections that do not read.
    received: u64,
    bytes_max: u64,
    /// The most since free memory was last returned to the system.
    peak: u64,
}

impl Memory {
    pub(crate) fn new(bytes_max: u64) -> Memory {
        Memory { of_connections: 0, received: 0, bytes_max, peak: 0 }
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.of_connections + self.received
    }

    /// A connection keeps `after` bytes instead of `before`.
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.of_connections = self.of_connections + u64::from(after) - u64::from(before);
        self.peak = self.peak.max(self.bytes());
    }

    /// The event loop keeps `bytes` for connections that do not read.
    #[inline]
    pub(crate) fn set_received(&mut self, bytes: usize) {
        self.received = bytes as u64;
        self.peak = self.peak.max(self.bytes());
    }

    /// Whether connections must be closed.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether no connection should be added.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.bytes() > self.bytes_max / 8 * 7
    }

    /// How many bytes must be freed until there is room again: enough that this is not asked soon again.
    pub(crate) fn excess(&self) -> u64 {
        self.bytes().saturating_sub(self.bytes_max / 4 * 3)
    }

    /// Whether so much was freed that it should go back to the system.
    #[inline]
    pub(crate) fn is_to_be_released(&self) -> bool {
        self.peak >= RELEASED_BYTES_MIN && self.bytes() < self.peak / 2
    }

    /// What was freed goes back to the system now.
    pub(crate) fn set_released(&mut self) {
        self.peak = self.bytes();
    }
}

/// Returns how much the connections of each of `threads` workers may keep, in bytes. Has to be called when all is open that
/// takes memory of its own, and before the sandbox hides what the process uses.
pub(crate) fn share(threads: NonZeroUsize) -> u64 {
    let threads = threads.get() as u64;
    let of_limit = getrlimit(Resource::Data).current.map(|limit| {
        let rest = limit.saturating_sub(used_bytes().unwrap_or(0)).saturating_sub(threads * WORKER_BYTES);
        // Freed memory comes back in pieces, and a buffer that grows exists twice: half is left for that.
        rest / 2
    });
    let all = of_limit.map_or(CONNECTIONS_BYTES_MAX, |bytes| bytes.min(CONNECTIONS_BYTES_MAX));
    (all / threads).max(WORKER_CONNECTIONS_BYTES_MIN)
}

/// Memory of the process that counts against the limit (`RLIMIT_DATA`), in bytes.
fn used_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_returned_once_for_each_peak() {
        let mut memory = Memory::new(100 << 20);
        memory.change(0, 40 << 20);
        assert!(!memory.is_to_be_released());
        memory.change(40 << 20, 10 << 20);
        assert!(memory.is_to_be_released());
        memory.set_released();
        assert!(!memory.is_to_be_released());
        memory.change(10 << 20, 15 << 20);
        memory.change(15 << 20, 0);
        assert!(!memory.is_to_be_released(), "too little");
    }

    #[test]
    fn what_is_freed_makes_room_for_more_than_one_connection() {
        let mut memory = Memory::new(800);
        memory.change(0, 700);
        assert!(!memory.is_tight() && !memory.is_over());
        memory.change(700, 701);
        assert!(memory.is_tight() && !memory.is_over());
        memory.change(701, 801);
        assert!(memory.is_over());
        assert_eq!(memory.excess(), 201);
    }

    #[test]
    fn received_bytes_of_the_event_loop_count() {
        let mut memory = Memory::new(800);
        memory.change(0, 400);
        memory.set_received(401);
        assert!(memory.is_over());
        memory.set_received(100);
        assert!(!memory.is_tight());
    }
}
