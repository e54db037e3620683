//! The counters of one worker.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use cannery_wire::Refusal;

use super::{Counter, Histogram, Missing};

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

/// The counters of one worker. Aligned, so that no line of them is shared with another worker's.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// The number of the worker's thread, once it has started.
    pub(crate) thread: AtomicU32,
    pub(crate) accepted: Counter,
    pub(crate) closed: Counter,
    pub(crate) timed_out: Counter,
    /// Connections that were closed because all together kept too much memory.
    pub(crate) shed: Counter,
    pub(crate) broken: Counter,
    /// Connections that did not begin with the PROXY header that they had to begin with.
    pub(crate) unnamed: Counter,
    /// Handshakes of TLS that were done from the beginning.
    pub(crate) handshakes_full: Counter,
    /// Those that went on from an earlier session.
    pub(crate) handshakes_resumed: Counter,
    /// Connections whose TLS failed.
    pub(crate) tls_failures: Counter,
    pub(crate) bytes: Counter,
    pub(crate) log_lines_dropped: Counter,
    pub(crate) methods: [Counter; MethodKind::ALL.len()],
    pub(crate) refusals: [Counter; Refusal::ALL.len()],
    pub(crate) latency: Histogram,
    statuses: [Counter; STATUSES],
    missing: Mutex<Missing>,
}

/// Methods, as far as they are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodKind {
    Get,
    Head,
    Options,
    Other,
}

impl MethodKind {
    pub(crate) const ALL: [MethodKind; 4] =
        [MethodKind::Get, MethodKind::Head, MethodKind::Options, MethodKind::Other];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            MethodKind::Get => "GET",
            MethodKind::Head => "HEAD",
            MethodKind::Options => "OPTIONS",
            MethodKind::Other => "other",
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            thread: AtomicU32::new(0),
            accepted: Counter::default(),
            closed: Counter::default(),
            timed_out: Counter::default(),
            shed: Counter::default(),
            broken: Counter::default(),
            unnamed: Counter::default(),
            handshakes_full: Counter::default(),
            handshakes_resumed: Counter::default(),
            tls_failures: Counter::default(),
            bytes: Counter::default(),
            log_lines_dropped: Counter::default(),
            methods: std::array::from_fn(|_| Counter::default()),
            refusals: std::array::from_fn(|_| Counter::default()),
            latency: Histogram::default(),
            statuses: std::array::from_fn(|_| Counter::default()),
            missing: Mutex::default(),
        }
    }
}

impl Counters {
    /// Counts an answer with this status.
    #[inline]
    pub(crate) fn count_status(&self, status: u16) {
        if let Some(counter) = self.statuses.get(usize::from(status).wrapping_sub(100)) {
            counter.add(1);
        }
    }

    /// Every status that was answered, and how often.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (100..).zip(&self.statuses).map(|(status, counter)| (status, counter.get())).filter(|(_, n)| *n > 0)
    }

    /// Counts a path that was asked for and is not there. Takes a lock, which nobody holds for long.
    #[cold]
    pub(crate) fn count_missing(&self, target: &[u8]) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).count(target);
    }

    /// Adds the missing paths to those of others.
    pub(super) fn add_missing_to(&self, all: &mut Missing) {
        all.merge(&self.missing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
