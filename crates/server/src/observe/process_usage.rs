//! Resource usage of the process (memory, descriptors and CPU time).
//!
//! The reload thread takes a sample twice a second if operators can query it. `/proc/self/statm` has to be
//! opened before we enter the sandbox, whereas descriptors can be counted without opening a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::metrics::{Counters, Snapshot};

/// Samples the resource usage of the process.
#[derive(Debug)]
pub(crate) struct ProcessSampler {
    /// `/proc/self/statm`, which contains sizes in pages.
    memory: Option<File>,
    page_bytes: u64,
    /// Descriptors that were open at startup.
    descriptors_at_start: u64,
    /// Limit of each descriptor table.
    descriptors_max: u64,
    workers: Vec<Arc<Counters>>,
}

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

impl ProcessSampler {
    /// Opens `/proc/self/statm` and counts the open descriptors. This must be called before entering the
    /// sandbox.
    pub(crate) fn open() -> ProcessSampler {
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        ProcessSampler {
            memory: File::open("/proc/self/statm").ok(),
            page_bytes: rustix::param::page_size() as u64,
            descriptors_at_start: descriptors,
            descriptors_max: getrlimit(Resource::Nofile).current.unwrap_or(0),
            workers: Vec::new(),
        }
    }

    /// Also counts the descriptors of `workers`.
    pub(crate) fn with_workers(self, workers: Vec<Arc<Counters>>) -> ProcessSampler {
        ProcessSampler { workers, ..self }
    }

    /// Stores a new sample in `status`. If memory sizes cannot be read, they remain unchanged.
    pub(crate) fn sample(&self, status: &ProcessStatus) {
        if let Some([virtual_bytes, resident_bytes, shared_bytes]) = self.memory() {
            status.virtual_bytes.store(virtual_bytes, Ordering::Relaxed);
            status.resident_bytes.store(resident_bytes, Ordering::Relaxed);
            status.anonymous_bytes.store(resident_bytes.saturating_sub(shared_bytes), Ordering::Relaxed);
        }
        status.descriptors.store(self.descriptors(), Ordering::Relaxed);
        // Each worker has its own table with the same limit.
        let tables = self.workers.len() as u64 + 1;
        status.descriptors_max.store(self.descriptors_max.saturating_mul(tables), Ordering::Relaxed);
    }

    /// Reads the virtual size, the resident size, and the part of the latter that is shared with the
    /// page cache, all in bytes.
    fn memory(&self) -> Option<[u64; 3]> {
        let mut text = [0; 128];
        let length = self.memory.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut pages = std::str::from_utf8(text.get(..length)?).ok()?.split(' ').map(str::parse::<u64>);
        let bytes = |pages: u64| pages.saturating_mul(self.page_bytes);
        let mut next = || Some(bytes(pages.next()?.ok()?));
        Some([next()?, next()?, next()?])
    }

    /// Returns the number of open descriptors in the tables of all threads.
    fn descriptors(&self) -> u64 {
        // Since Linux 6.2, the size of this directory is the number of descriptors.
        let table_length = |path: String| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let threads = self.workers.iter().map(|counters| counters.thread.load(Ordering::Relaxed));
        let in_worker_tables: u64 =
            threads.map(|thread| table_length(format!("/proc/self/task/{thread}/fd"))).sum();
        match table_length("/proc/self/fd".to_owned()) {
            0 => self.descriptors_at_start.saturating_add(Snapshot::of(&self.workers).open()),
            in_process_table => in_process_table.saturating_add(in_worker_tables),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn sample_measures_this_process() {
        let sampler = ProcessSampler::open();
        let status = ProcessStatus::default();
        sampler.sample(&status);
        let usage = ProcessUsage::of(&status, 5.0);
        assert!((1..usage.resident_bytes).contains(&usage.anonymous_bytes), "{usage:?}");
        assert!(usage.resident_bytes > 1 << 20 && usage.virtual_bytes > usage.resident_bytes, "{usage:?}");
        assert!((3..usage.descriptors_max).contains(&usage.descriptors), "{usage:?}");
        let mut sum = ProcessUsage::default();
        sum.add(&usage);
        sum.add(&ProcessUsage { start_time: 4.0, ..usage });
        assert_eq!((sum.resident_bytes, sum.start_time), (usage.resident_bytes * 2, 4.0));
    }
}
