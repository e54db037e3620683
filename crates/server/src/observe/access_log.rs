//! Access log: one line per request, encoded into a buffer of the worker and written to the file by a dedicated thread.
//!
//! Logging never blocks a worker: if the file is slower than the requests, we drop lines and count them.

mod buffer;
mod combined;
mod encode;
mod failures;
mod json;
mod line;
mod message;
mod output;
mod writer;

pub(super) use buffer::LogBuffer;
pub(crate) use writer::{LogFile, LogWriter, ReopenHandle};
