//! What the workers count, and what comes of it when somebody asks.
//!
//! Each worker writes its own counters and nobody else does: to count is to load, add and store, without a
//! locked instruction and without a cache line that another processor writes. Never touched by a clock.

mod counters;
mod histogram;
mod missing;
mod snapshot;

pub(crate) use counters::{Counters, MethodKind};
use histogram::Histogram;
pub(crate) use missing::Missing;
pub(crate) use snapshot::Snapshot;

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
