//! Access log. Workers encode a line for each request into a buffer, and these lines are written to the file
//! by a dedicated thread.
//!
//! Logging must never block a worker. If the file is slower than the requests, lines are dropped and
//! counted instead.

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
