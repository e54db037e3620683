//! Notices from workers. They must not call the notice handler themselves because it may block.

use std::sync::mpsc::Receiver;

use super::Reporter;
use crate::notice::Notice;

/// Receives notices from workers.
pub(crate) struct WorkerNotices(pub(crate) Receiver<Notice>);

impl WorkerNotices {
    /// Passes on the notices that have arrived, without waiting for more.
    pub(super) fn pass_on(&self, reporter: &Reporter) {
        for notice in self.0.try_iter() {
            reporter.notify(&notice);
        }
    }
}
