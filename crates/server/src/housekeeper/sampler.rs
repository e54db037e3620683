//! Samples of the process for operators: memory and descriptors.
//!
//! `/proc/self/statm` has to be opened before we enter the sandbox, whereas descriptors can be counted without opening a
//! file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::process::{Resource, getrlimit};

use crate::observe::process_usage::ProcessStatus;
use crate::observe::{Counters, Snapshot};

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

impl ProcessSampler {
    /// Opens `/proc/self/statm` and counts the open descriptors. Samples will include the descriptors of these workers.
    pub(crate) fn open(workers: Vec<Arc<Counters>>) -> ProcessSampler {
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        ProcessSampler {
            memory: File::open("/proc/self/statm").ok(),
            page_bytes: rustix::param::page_size() as u64,
            descriptors_at_start: descriptors,
            descriptors_max: getrlimit(Resource::Nofile).current.unwrap_or(0),
            workers,
        }
    }

    /// Stores a new sample in `status`. If memory sizes cannot be read, they remain unchanged.
    pub(super) fn sample(&self, status: &ProcessStatus) {
        if let Some(sizes) = self.memory() {
            status.set_memory(sizes);
        }
        // Each worker has its own table with the same limit.
        let tables = self.workers.len() as u64 + 1;
        status.set_descriptors(self.descriptors(), self.descriptors_max.saturating_mul(tables));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::process_usage::ProcessUsage;

    #[test]
    #[cfg(target_os = "linux")]
    fn sample_measures_this_process() {
        let sampler = ProcessSampler::open(Vec::new());
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
