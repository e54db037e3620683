//! The protocols: bytes to requests and answers to bytes, as state machines without I/O.
//!
//! A connection is handed what the peer sent and says what was asked ([`h1::Connection::next_request`]); it
//! is handed the answer and spells it into an [`Output`]. Never makes a system call, never reads a clock,
//! knows no TLS: bytes and time are arguments.

#![forbid(unsafe_code)]

pub mod h1;
pub mod h2;

pub mod hpack;
pub mod huffman;
pub mod limits;
pub mod proxy;
pub mod response_head;

mod archive_ref;
mod builtin_fields;
mod decimal;
mod grammar;
mod output;
mod refusal;
mod request_head;
mod scan;
mod server_fields;

pub use archive_ref::ArchiveRef;
pub use output::{Output, Segment};
pub use refusal::Refusal;
pub use request_head::{RequestHead, Version};
pub use server_fields::ServerFields;
