//! Resource usage of the process (memory, descriptors and CPU time).

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The last sample.
#[derive(Debug, Default)]
pub(crate) struct ProcessStatus {
    resident_bytes: AtomicU64,
    anonymous_bytes: AtomicU64,
    virtual_bytes: AtomicU64,
    descriptors: AtomicU64,
    descriptors_max: AtomicU64,
}

/// A sample in plain values, for one process or summed up over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessUsage {
    pub(crate) resident_bytes: u64,
    /// Resident memory that does not belong to the page cache. This excludes mapped archives and programs.
    pub(crate) anonymous_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) descriptors: u64,
    pub(crate) descriptors_max: u64,
    /// Unix time in seconds. In a sum, this is the oldest process.
    pub(crate) start_time: f64,
}

impl ProcessStatus {
    /// Stores the virtual size, the resident size, and the part of the latter that is shared with the page cache, all
    /// in bytes.
    pub(crate) fn set_memory(&self, [virtual_bytes, resident_bytes, shared_bytes]: [u64; 3]) {
        self.virtual_bytes.store(virtual_bytes, Ordering::Relaxed);
        self.resident_bytes.store(resident_bytes, Ordering::Relaxed);
        self.anonymous_bytes.store(resident_bytes.saturating_sub(shared_bytes), Ordering::Relaxed);
    }

    /// Stores how many descriptors are open, and their limit.
    pub(crate) fn set_descriptors(&self, open: u64, max: u64) {
        self.descriptors.store(open, Ordering::Relaxed);
        self.descriptors_max.store(max, Ordering::Relaxed);
    }
}

impl ProcessUsage {
    /// Returns the last sample of this process.
    pub(crate) fn of(status: &ProcessStatus, start_time: f64) -> ProcessUsage {
        ProcessUsage {
            resident_bytes: status.resident_bytes.load(Ordering::Relaxed),
            anonymous_bytes: status.anonymous_bytes.load(Ordering::Relaxed),
            virtual_bytes: status.virtual_bytes.load(Ordering::Relaxed),
            descriptors: status.descriptors.load(Ordering::Relaxed),
            descriptors_max: status.descriptors_max.load(Ordering::Relaxed),
            start_time,
        }
    }

    /// Adds the usage of another process.
    pub(crate) fn add(&mut self, other: &ProcessUsage) {
        let is_first = self.start_time == 0.0;
        self.start_time = if is_first { other.start_time } else { self.start_time.min(other.start_time) };
        for (sum, more) in [
            (&mut self.resident_bytes, other.resident_bytes),
            (&mut self.anonymous_bytes, other.anonymous_bytes),
            (&mut self.virtual_bytes, other.virtual_bytes),
            (&mut self.descriptors, other.descriptors),
            (&mut self.descriptors_max, other.descriptors_max),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Returns the CPU time used by this process, in seconds.
pub(crate) fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss, reason = "a statistic for operators")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}
