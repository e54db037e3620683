//! Access log. Workers encode a line for each request into a buffer, and a dedicated thread writes these to the
//! file.
//!
//! Logging never blocks a worker. If the file is slower than the requests, we drop lines and count them.

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
