//! HTTP/2 connections (RFC 9113), as far as a file server needs them, with priorities (RFC 9218).
//!
//! Requests come out as soon as their header sections are complete, and are answered at once: their content
//! is discarded. Only those for handlers may be answered later. A small response that fits the peer's windows is written whole and creates no stream; any
//! other waits as a stream for its turn ([`Connection::fill`]). No server push.

// The state machine: frames of the peer, and requests that wait.
mod connection;
mod control;
mod kept_request;

// Responses: heads and bodies, in the order of their priorities, as windows allow.
mod body;
mod flow;
mod respond;
mod stream;

// Layout of frames, settings and error codes.
mod error;
mod frame;
mod settings;

#[cfg(test)]
mod tests;

pub use connection::{Awaits, Connection, ReceivedContent, Step, StreamId};
pub use error::ErrorCode;
pub use frame::PREFACE;
