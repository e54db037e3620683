//! Memory of all connections of a worker, and its limit.
//!
//! Connections count with the memory that they keep between events: incomplete requests, responses that clients are slow to
//! receive, the state of TLS and HTTP/2, and data that the event loop has received for connections that don't read. Above
//! the limit, the worker closes the connections that keep most.

use std::num::NonZeroUsize;

use cannery_wire::limits::CONNECTIONS_BYTES_MAX;
use rustix::process::{Resource, getrlimit};

use crate::routes::limits::HANDLERS_CONTENT_BYTES_MAX;

/// Memory of a worker in addition to its connections: a stack, buffers, and room for the allocator.
const WORKER_BYTES: u64 = 4 << 20;

/// Memory of a thread that runs handlers: its stack counts as a whole.
const POOL_THREAD_BYTES: u64 = (2 << 20) + (64 << 10);

/// The lowest limit for the connections of a worker. Below it no connection could be served.
const WORKER_CONNECTIONS_BYTES_MIN: u64 = 1 << 20;

/// The lowest peak after which free memory is returned to the system: less isn't worth a walk through the allocator. A worker may
/// keep as much when its connections have ended.
const RELEASED_BYTES_MIN: u64 = 4 << 20;

/// How long the connections must need less than half of the peak before free memory is returned to the system, in seconds.
/// Otherwise connections that arrive in bursts would take it again page by page, which is 5 % of the CPU time of their handshakes.
const RELEASED_AFTER_S: u32 = 10;

/// Memory of all connections of a worker, and its limit.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// Bytes that connections keep.
    connections: u64,
    /// Bytes that the event loop keeps for connections that don't read.
    received: u64,
    /// Bytes of blocks that responses over HTTP/3 share, as far as connections don't count them.
    blocks: u64,
    bytes_max: u64,
    /// The highest sum since free memory was last returned to the system.
    peak: u64,
    /// The highest sum in this second.
    recent_peak: u64,
    /// For how many seconds the sum was less than half of the peak.
    low_seconds: u32,
}

impl MemoryBudget {
    pub(super) fn new(bytes_max: u64) -> MemoryBudget {
        MemoryBudget {
            connections: 0,
            received: 0,
            blocks: 0,
            bytes_max,
            peak: 0,
            recent_peak: 0,
            low_seconds: 0,
        }
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.connections + self.received + self.blocks
    }

    /// Counts that a connection keeps `after` bytes instead of `before`.
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.connections = self.connections + u64::from(after) - u64::from(before);
        self.count_peak();
    }

    /// Sets how many bytes the event loop keeps for connections that don't read.
    #[inline]
    pub(crate) fn set_received(&mut self, bytes: usize) {
        self.received = bytes as u64;
        self.count_peak();
    }

    /// Sets the memory of blocks that responses over HTTP/3 share.
    #[inline]
    pub(crate) fn set_blocks(&mut self, bytes: usize) {
        self.blocks = bytes as u64;
        self.count_peak();
    }

    #[inline]
    fn count_peak(&mut self) {
        self.recent_peak = self.recent_peak.max(self.bytes());
    }

    /// Returns the limit in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns `true` if connections must be closed.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Returns `true` if no connection should be added.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.bytes() > self.bytes_max / 8 * 7
    }

    /// Returns how many bytes must be freed, so that some time passes until the limit is reached again.
    pub(crate) fn excess(&self) -> u64 {
        self.bytes().saturating_sub(self.bytes_max / 4 * 3)
    }

    /// Returns `true` if enough memory is free to return it to the system, unless connections need it again soon.
    #[inline]
    pub(crate) fn has_memory_to_release(&self) -> bool {
        let peak = self.peak.max(self.recent_peak);
        peak >= RELEASED_BYTES_MIN && self.bytes() < peak / 2
    }

    /// Counts a second. Returns `true` if free memory is to be returned to the system now.
    pub(crate) fn tick(&mut self) -> bool {
        self.peak = self.peak.max(self.recent_peak);
        let is_low = self.peak >= RELEASED_BYTES_MIN && self.recent_peak < self.peak / 2;
        self.low_seconds = if is_low { self.low_seconds + 1 } else { 0 };
        self.recent_peak = self.bytes();
        if self.low_seconds < RELEASED_AFTER_S {
            return false;
        }
        self.low_seconds = 0;
        self.peak = self.bytes();
        true
    }
}

/// How much memory a process may use for what clients send, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimits {
    /// The connections of a worker.
    pub(crate) worker_bytes: u64,
    /// The content of requests that wait for handlers on the pool.
    pub(crate) handlers_content_bytes: usize,
}

impl MemoryLimits {
    /// Measures the limits for this number of workers, and of threads for handlers. Call it after everything that takes memory
    /// was opened, before these threads start, and before the sandbox hides how much memory the process uses.
    pub(crate) fn measure(workers: NonZeroUsize, pool_threads: usize) -> MemoryLimits {
        let workers = workers.get() as u64;
        let threads = workers * WORKER_BYTES + pool_threads as u64 * POOL_THREAD_BYTES;
        let limit = getrlimit(Resource::Data).current;
        let rest = limit.map(|limit| limit.saturating_sub(used_bytes().unwrap_or(0)).saturating_sub(threads));
        MemoryLimits::of(workers, rest, pool_threads > 0)
    }

    /// Divides `rest` bytes, or as much as is needed.
    fn of(workers: u64, rest: Option<u64>, has_handlers: bool) -> MemoryLimits {
        // Half is left for fragmentation, and for buffers that exist twice while they grow.
        let all = rest.map_or(u64::MAX, |rest| rest / 2);
        let connections = if has_handlers { all / 2 } else { all };
        MemoryLimits {
            worker_bytes: (connections.min(CONNECTIONS_BYTES_MAX) / workers)
                .max(WORKER_CONNECTIONS_BYTES_MIN),
            handlers_content_bytes: usize::try_from(all / 2)
                .map_or(HANDLERS_CONTENT_BYTES_MAX, |bytes| bytes.min(HANDLERS_CONTENT_BYTES_MAX)),
        }
    }
}

/// Returns the memory of the process that counts against `RLIMIT_DATA`, in bytes.
fn used_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests;
