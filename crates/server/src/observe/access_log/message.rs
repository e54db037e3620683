//! Messages from workers and the thread of signals to the thread that writes the access log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Buffers of one worker: two megabytes, some ten thousand lines, may wait to be written. Room for them is asked for
/// at once, and only taken when it is written to.
pub(super) const BUFFERS: usize = 8;

/// A message to the thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Whole lines, and where their buffer goes afterwards.
    Lines { bytes: Vec<u8>, back: SyncSender<Vec<u8>> },
    /// Wakes the thread up: the file is to be reopened.
    Reopen,
    /// No more lines will come.
    End,
}

impl Message {
    /// Empties the buffer, and returns it to its worker.
    pub(super) fn give_back(self) {
        if let Message::Lines { mut bytes, back } = self {
            bytes.clear();
            // It fails only where the worker has ended.
            let _ = back.try_send(bytes);
        }
    }
}

/// What other threads tell the writer without waiting for it, and learn of it.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) reopen: AtomicBool,
    /// Grows with each successful write.
    pub(super) progress: AtomicU64,
}

impl Control {
    pub(super) fn add_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the file is to be reopened.
    pub(super) fn wants_reopening(&self) -> bool {
        self.reopen.load(Ordering::Acquire)
    }
}
