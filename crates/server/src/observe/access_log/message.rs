//! Messages to the thread that writes the access log, sent by workers and by the signal thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Buffers per worker. This many allow up to two megabytes (about ten thousand lines) to wait to be
/// written. While we reserve all of the address space, the kernel will not allocate memory until it is
/// first written to.
pub(super) const BUFFERS: usize = 8;

/// A message to the writer thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Some whole lines, and the channel for returning their buffer.
    Lines { bytes: Vec<u8>, back: SyncSender<Vec<u8>> },
    /// Wakes up the thread so that it reopens the file.
    Reopen,
    /// There will not be any more lines.
    End,
}

impl Message {
    /// Clears the buffer before returning it to the worker.
    pub(super) fn return_buffer(self) {
        if let Message::Lines { mut bytes, back } = self {
            bytes.clear();
            // This only fails if the worker has exited.
            let _ = back.try_send(bytes);
        }
    }
}

/// State that the writer thread shares with other threads. It never blocks them.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Set this to make the thread reopen the file.
    pub(super) reopen: AtomicBool,
    /// Incremented after each successful write.
    pub(super) progress: AtomicU64,
}

impl Control {
    pub(super) fn add_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the file should be reopened.
    pub(super) fn is_reopen_requested(&self) -> bool {
        self.reopen.load(Ordering::Acquire)
    }
}
