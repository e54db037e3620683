//! Metrics: counters of the workers and their sums for operators.
//!
//! Only the worker itself writes to its counters. An update consists of a load, an add and a store: there is
//! no locked instruction, no cache line that another CPU writes to, and the clock is only read for responses of routes.

mod counters;
mod histogram;
mod http3;
mod missing;
mod snapshot;

pub(crate) use counters::{Counters, MethodKind};
use histogram::Histogram;
pub(crate) use http3::Http3Metric;
pub(crate) use missing::Missing;
pub(crate) use snapshot::{RouteCounts, Snapshot};

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that is written by one thread, and read by any number of threads.
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
