//! HTTP protocol state machines. They turn bytes into requests and responses into bytes and never do I/O.
//!
//! A connection parses received bytes into requests ([`h1::Connection::next_request`]). The caller looks up an answer in the site,
//! after which the connection writes the response into an [`Output`]. This crate makes no system calls, does not read the clock and
//! knows nothing about TLS: callers pass in both bytes and time.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// Connections: a state machine, parsers and encoders for each protocol.
pub mod h1;
pub mod h2;
pub mod h3;

// The PROXY protocol header, which a load balancer can send first.
pub mod proxy;

// Responses, and the buffer they are written to.
mod response;

// Requests, and why we refuse some of them.
mod request;

// Header compression of HTTP/2 and HTTP/3.
mod compression;

// Shared by all protocols: budgets, grammar, byte searches.
mod ground;

// Limits, with their reasons.
pub mod limits;

pub use compression::{hpack, huffman, qpack};
pub use ground::archive_ref::ArchiveRef;
pub use ground::grammar::is_host;
pub use request::head::{RequestHead, Version};
pub use request::head_store::{HeadStore, KeptLines};
pub use request::line::RequestLine;
pub use request::priority::Priority;
pub use request::refusal::Refusal;
pub use request::stored::StoredRequest;
pub use request::streamed::Arrival;
pub use response::Response;
pub use response::head as response_head;
pub use response::multiplexed::{BodyFollows, Multiplexed, OwnHead, Resumption};
pub use response::output::{Output, Segment};
pub use response::server_fields::ServerFields;
