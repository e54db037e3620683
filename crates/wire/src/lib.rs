//! HTTP protocol state machines. They turn bytes into requests and responses into bytes and never do I/O.
//!
//! A connection parses received bytes into requests ([`h1::Connection::next_request`]). The caller looks up an answer in the site,
//! after which the connection writes the response into an [`Output`]. This crate makes no system calls, does not read the clock and
//! knows nothing about TLS: callers pass in both bytes and time.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Connections: a state machine, parsers and encoders for each protocol.
pub mod h1;
pub mod h2;
pub mod h3;
// The PROXY protocol header, which a load balancer can send first.
pub mod proxy;

// Requests, and why we refuse some of them.
mod head_store;
mod priority;
mod refusal;
mod request_head;
mod request_line;
mod stored_request;

// Responses, and the buffer they are written to.
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

// Shared by all protocols: budgets, limits, grammar, byte searches.
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
