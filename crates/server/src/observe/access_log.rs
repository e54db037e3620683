//! A line for each request: spelled into the worker's own buffer, written to the file by a thread of its own.
//!
//! Never makes a worker wait: where the file is slower than the requests, lines are dropped and counted.

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
pub(crate) use writer::{LogFile, LogWriter, Reopen};
