//! HTTP as state machines without I/O: bytes to requests, and responses to bytes.
//!
//! A connection parses the peer's bytes into requests ([`h1::Connection::next_request`]), and writes the
//! response for the site's answer into an [`Output`]. This crate makes no system call, reads no clock and
//! knows no TLS: bytes and time are arguments.

#![forbid(unsafe_code)]

// Connections: state machines, parsers and encoders of the protocols.
pub mod h1;
pub mod h2;
pub mod h3;
// The PROXY protocol, which may precede either.
pub mod proxy;

// Requests, or why bytes are not a request.
mod head_store;
mod priority;
mod refusal;
mod request_head;
mod request_line;
mod stored_request;

// Responses, and the buffer that collects them.
mod builtin_fields;
mod multiplexed;
mod output;
mod response;
mod response_fields;
pub mod response_head;
mod server_fields;

// Header compression of HTTP/2 and HTTP/3.
pub mod hpack;
pub mod huffman;
pub mod qpack;
mod table_owner;

// Shared by all of them: budgets, limits, grammar, byte searches.
mod abuse;
mod archive_ref;
mod decimal;
mod grammar;
pub mod limits;
mod scan;

pub use archive_ref::ArchiveRef;
pub use grammar::is_host;
pub use head_store::{HeadStore, KeptLines};
pub use multiplexed::{BodyFollows, Multiplexed, OwnHead, Resumption};
pub use output::{Output, Segment};
pub use priority::Priority;
pub use refusal::Refusal;
pub use request_head::{RequestHead, Version};
pub use request_line::RequestLine;
pub use response::Response;
pub use server_fields::ServerFields;
pub use stored_request::StoredRequest;
