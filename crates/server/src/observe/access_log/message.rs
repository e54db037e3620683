//! Messages from workers and the signal thread to the thread that writes the access log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Buffers per worker: two megabytes, about ten thousand lines, may wait to be written. We reserve the address space at
/// once; the kernel allocates memory when it is first written to.
pub(super) const BUFFERS: usize = 8;

/// A message to the writer thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Whole lines, and the channel on which their buffer is returned.
    Lines { bytes: Vec<u8>, back: SyncSender<Vec<u8>> },
    /// Wakes up the thread to reopen the file.
    Reopen,
    /// No more lines will come.
    End,
}

impl Message {
    /// Clears the buffer and returns it to its worker.
    pub(super) fn return_buffer(self) {
        if let Message::Lines { mut bytes, back } = self {
            bytes.clear();
            // This fails only if the worker has exited.
            let _ = back.try_send(bytes);
        }
    }
}

/// State that the writer thread shares with other threads, without blocking them.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Set to have the file reopened.
    pub(super) reopen: AtomicBool,
    /// Incremented by each successful write.
    pub(super) progress: AtomicU64,
}

impl Control {
    pub(super) fn add_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the file is to be reopened.
    pub(super) fn is_reopen_requested(&self) -> bool {
        self.reopen.load(Ordering::Acquire)
    }
}
