//! HTTP/2 connections (RFC 9113), as far as a file server needs them, with priorities (RFC 9218).
//!
//! A request comes out as soon as its header section is complete. Usually we answer it at once and discard
//! its content; only handlers can answer later. If a small response fits the peer's flow-control windows, we
//! write all of it immediately, without creating a stream. Other responses become streams that take turns in
//! [`Connection::fill`]. We do not support server push.

// The state machine: the peer's frames, and requests that wait.
mod connection;
mod control;
mod kept_request;

// Responses: heads and bodies, sent by priority as far as the flow-control windows allow.
mod body;
mod flow;
mod respond;
mod stream;

// Layout of frames, settings and error codes on the wire.
mod error;
mod frame;
mod settings;

#[cfg(test)]
mod tests;

pub use connection::{Awaits, Connection, ReceivedContent, Step, StreamId};
pub use error::ErrorCode;
pub use frame::PREFACE;
