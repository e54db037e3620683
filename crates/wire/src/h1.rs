//! HTTP/1 connections (RFC 9112): pipelining, keep-alive, close.
//!
//! Requests come out in the order in which they were sent, and must be answered in that order. Where the next
//! request begins is never guessed: if it is ambiguous, the connection closes.

mod connection;
mod content;
mod encode;
mod parse;

pub use connection::{Awaits, Connection, ContentError, ContentTooLong, Step, connection_option};
#[cfg(test)]
pub(crate) use encode::put_response;
pub use encode::{dummy_response, put_head};
pub use parse::{Framing, Head};
