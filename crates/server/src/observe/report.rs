//! Periodic statistics for terminals: open connections, request rate, errors and latency.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::metrics::{Counters, Snapshot};
use crate::config::NoticeHandler;
use crate::error::StartError;
use crate::notice::Notice;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Reports statistics at a fixed interval, until it is dropped.
#[derive(Debug)]
pub(crate) struct Report {
    _end: Sender<()>,
}

impl Report {
    /// Starts the reporting thread.
    pub(crate) fn start(
        every: Duration,
        workers: Vec<Arc<Counters>>,
        on_notice: NoticeHandler,
        sandbox: &Sandbox,
    ) -> Result<Report, StartError> {
        let (end, ended) = channel();
        thread::start("report", sandbox, ThreadRole::Coordinator, move || {
            let mut before = Snapshot::of(&workers);
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let now = Snapshot::of(&workers);
                (on_notice.0)(&interval_stats(&before, &now, every));
                before = now;
            }
        })?;
        Ok(Report { _end: end })
    }
}

/// Returns the statistics for the interval between two snapshots.
fn interval_stats(before: &Snapshot, now: &Snapshot, every: Duration) -> Notice {
    let errors = |snapshot: &Snapshot| snapshot.class(4) + snapshot.class(5);
    #[allow(clippy::cast_precision_loss, reason = "a rate for display")]
    let rate = now.requests().saturating_sub(before.requests()) as f64 / every.as_secs_f64();
    let p99 = now.latency.since(&before.latency).quantile(0.99);
    Notice::Stats { open: now.open(), rate, errors: errors(now).saturating_sub(errors(before)), p99 }
}
