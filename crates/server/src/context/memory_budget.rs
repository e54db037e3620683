//! Limits the memory that all connections of a worker take.
//!
//! The limit covers the memory that connections keep between events, e.g. incomplete requests, responses that
//! clients are slow to receive, TLS and HTTP/2 state, data that the event loop has received for
//! connections that are currently not reading, and responses that handlers have written and that connections
//! have not taken. If the sum exceeds it, the worker closes the largest connections.

use std::num::NonZeroUsize;

use cannery_wire::limits::CONNECTIONS_BYTES_MAX;
use rustix::process::{Resource, getrlimit};

use crate::routes::limits::HANDLERS_CONTENT_BYTES_MAX;

/// Memory that a worker needs besides its connections: stack, buffers, and some room for the allocator.
const WORKER_BYTES: u64 = 4 << 20;

/// Memory that a handler thread needs. We count the whole stack.
const POOL_THREAD_BYTES: u64 = (2 << 20) + (64 << 10);

/// Lower bound for the limit of a worker's connections. With less, we could not serve any.
const WORKER_CONNECTIONS_BYTES_MIN: u64 = 1 << 20;

/// Lower bound for the limit of requests on the pool. With less, handlers could only run one at a time.
const HANDLERS_CONTENT_BYTES_MIN: usize = 1 << 20;

/// We only return free memory to the system if the peak was at least this high (otherwise, it would
/// not be worth the cost of walking through the allocator). A worker might keep as much after its
/// connections have closed.
const RELEASED_BYTES_MIN: u64 = 4 << 20;

/// Before we return free memory to the system, the connections must have needed less than half of the peak
/// for this many seconds. If this were shorter, connections that arrive in bursts would have to take the
/// memory again page by page, at a cost of 5 % of the CPU time of their handshakes.
const RELEASED_AFTER_S: u32 = 10;

/// Memory of a connection, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionMemory {
    /// Everything, including what others keep for the connection.
    pub(crate) total: u32,
    /// Bytes that handlers have written and the connection has not taken.
    pub(crate) handled: u32,
}

/// The reason for closing connections.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShedGoal {
    /// The worker needs memory.
    Memory,
    /// Handlers need memory for other responses.
    Handled,
}

impl ShedGoal {
    /// Returns the bytes that closing a connection frees.
    pub(crate) fn bytes(self, memory: ConnectionMemory) -> u32 {
        match self {
            ShedGoal::Memory => memory.total,
            ShedGoal::Handled => memory.handled,
        }
    }
}

/// Memory taken by all connections of a worker, and the limit.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// Bytes kept by connections.
    connections: u64,
    /// Bytes kept by the event loop for connections that are not reading.
    received: u64,
    /// Bytes of responses that handlers have written and that connections have not taken.
    handled: u64,
    /// The least that `handled` was since the last tick.
    handled_low: u64,
    /// The part of `handled` that is on its way to connections: it wouldn't be freed by closing any.
    undelivered: u64,
    /// Bytes in blocks shared by HTTP/3 responses, unless they are included in `connections`.
    blocks: u64,
    bytes_max: u64,
    /// Whether we must close some connections. This is asked much more often than any of the above changes.
    is_over: bool,
    /// Highest sum since we last returned free memory to the system.
    peak: u64,
    /// Highest sum in the current second.
    recent_peak: u64,
    /// For how many seconds the sum has been less than half of the peak.
    low_seconds: u32,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: u64) -> MemoryBudget {
        MemoryBudget {
            connections: 0,
            received: 0,
            handled: 0,
            handled_low: 0,
            undelivered: 0,
            blocks: 0,
            bytes_max,
            is_over: false,
            peak: 0,
            recent_peak: 0,
            low_seconds: 0,
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.connections + self.received + self.handled + self.blocks
    }

    /// Must be called when the memory of a connection changes from `before` to `after` bytes.
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.connections = self.connections + u64::from(after) - u64::from(before);
        self.note_change();
    }

    /// Sets how many bytes the event loop keeps for connections that are not reading.
    #[inline]
    pub(crate) fn set_received(&mut self, bytes: usize) {
        if self.received != bytes as u64 {
            self.received = bytes as u64;
            self.note_change();
        }
    }

    /// Sets how many bytes handlers have written that connections have not taken.
    #[inline]
    pub(crate) fn set_handled(&mut self, bytes: usize) {
        if self.handled != bytes as u64 {
            self.handled = bytes as u64;
            self.handled_low = self.handled_low.min(self.handled);
            self.note_change();
        }
    }

    /// Sets how many of the bytes that handlers have written belong to connections already.
    pub(crate) fn set_delivered(&mut self, bytes: u64) {
        self.undelivered = self.handled.saturating_sub(bytes);
        self.note_change();
    }

    /// Must be called after all responses of handlers were delivered.
    pub(crate) fn all_delivered(&mut self) {
        self.undelivered = 0;
        self.note_change();
    }

    /// Returns the number of bytes that closing all connections would free.
    #[inline]
    fn owned_bytes(&self) -> u64 {
        self.bytes() - self.undelivered.min(self.handled)
    }

    /// Returns `true` if handlers have been held up since the last tick because connections haven't taken what was written.
    pub(crate) fn is_stalled(&self) -> bool {
        self.handled_low > self.bytes_max / 2
    }

    /// Sets how many bytes the blocks shared by HTTP/3 responses take.
    #[inline]
    pub(crate) fn set_blocks(&mut self, bytes: usize) {
        if self.blocks != bytes as u64 {
            self.blocks = bytes as u64;
            self.note_change();
        }
    }

    /// Must be called after any of the numbers has changed.
    fn note_change(&mut self) {
        self.recent_peak = self.recent_peak.max(self.bytes());
        self.is_over = self.owned_bytes() > self.bytes_max;
    }

    /// Returns the highest sum in the current second.
    #[cfg(test)]
    pub(crate) fn recent_peak(&self) -> u64 {
        self.recent_peak
    }

    /// Returns the limit in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns `true` if we must close some connections.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns `true` if we should not accept any more connections.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.bytes() > self.bytes_max / 8 * 7
    }

    /// Returns the number of bytes below the limit.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes())
    }

    /// The number of bytes to free. This is more than strictly necessary so that we will not reach the
    /// limit again soon.
    pub(crate) fn excess(&self, goal: ShedGoal) -> u64 {
        match goal {
            ShedGoal::Memory => self.owned_bytes().saturating_sub(self.bytes_max / 4 * 3),
            ShedGoal::Handled => {
                let delivered = self.handled.saturating_sub(self.undelivered);
                delivered.saturating_sub(self.bytes_max / 8 * 3)
            }
        }
    }

    /// Whether enough memory is free to return it to the system, assuming that connections will not need
    /// it again soon.
    #[inline]
    pub(crate) fn has_memory_to_release(&self) -> bool {
        let peak = self.peak.max(self.recent_peak);
        peak >= RELEASED_BYTES_MIN && self.bytes() < peak / 2
    }

    /// Must be called every second. Returns `true` if it is time to return free memory to the system.
    pub(crate) fn tick(&mut self) -> bool {
        self.peak = self.peak.max(self.recent_peak);
        let is_low = self.peak >= RELEASED_BYTES_MIN && self.recent_peak < self.peak / 2;
        self.low_seconds = if is_low { self.low_seconds + 1 } else { 0 };
        self.recent_peak = self.bytes();
        self.handled_low = self.handled;
        if self.low_seconds < RELEASED_AFTER_S {
            return false;
        }
        self.low_seconds = 0;
        self.peak = self.bytes();
        true
    }
}

/// Limits for the memory that a process uses for data from clients, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimits {
    /// For the connections of a worker.
    pub(crate) worker_bytes: u64,
    /// For requests that are waiting for handlers on the pool, or that handlers there are answering.
    pub(crate) handlers_content_bytes: usize,
}

impl MemoryLimits {
    /// Measures the available memory and divides it by the number of workers.
    ///
    /// This should be called after opening everything that takes memory, but before starting the threads and
    /// before entering the sandbox, which hides how much memory the process uses.
    pub(crate) fn measure(workers: NonZeroUsize, pool_threads: usize) -> MemoryLimits {
        let workers = workers.get() as u64;
        let limit = getrlimit(Resource::Data).current;
        let free = limit.map(|limit| limit.saturating_sub(used_bytes().unwrap_or(0)));
        let rest = free.map(|free| rest_beside_threads(free, workers, pool_threads as u64));
        MemoryLimits::of(workers, rest, pool_threads > 0)
    }

    /// Divides `rest` bytes, or fewer if that is enough.
    fn of(workers: u64, rest: Option<u64>, has_handlers: bool) -> MemoryLimits {
        // The other half is for fragmentation, and for buffers that exist twice while they grow.
        let all = rest.map_or(u64::MAX, |rest| rest / 2);
        let connections = if has_handlers { all / 2 } else { all };
        MemoryLimits {
            worker_bytes: (connections.min(CONNECTIONS_BYTES_MAX) / workers)
                .max(WORKER_CONNECTIONS_BYTES_MIN),
            handlers_content_bytes: usize::try_from(all / 2)
                .map_or(HANDLERS_CONTENT_BYTES_MAX, |bytes| bytes.min(HANDLERS_CONTENT_BYTES_MAX))
                .max(HANDLERS_CONTENT_BYTES_MIN),
        }
    }
}

/// Returns how much of `free` bytes the threads leave for data from clients.
///
/// Most threads of the pools never start, and if one can't start, its job waits for another one. So they get at most half.
fn rest_beside_threads(free: u64, workers: u64, pool_threads: u64) -> u64 {
    let free = free.saturating_sub(workers * WORKER_BYTES);
    free - (pool_threads * POOL_THREAD_BYTES).min(free / 2)
}

/// Returns the size, in bytes, of the process's memory that counts against `RLIMIT_DATA`.
fn used_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests;
