//! HTTP/1 connections (RFC 9112): pipelining, keep-alive, close.
//!
//! Requests come out in the order they were sent, and responses must be written in the same order. To avoid
//! guessing where the next request begins, we close the connection if a request is ambiguous.

mod connection;
mod content;
mod encode;
mod parse;

pub use connection::{Awaits, Connection, ContentError, ContentTooLong, Step, connection_option};
#[cfg(test)]
pub(crate) use encode::put_response;
pub use encode::{dummy_response, put_head};
pub use parse::{Framing, Head};
