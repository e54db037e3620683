//! HTTP/3 connections (RFC 9114), as far as a file server needs them, with priorities (RFC 9218).
//!
//! QUIC orders the bytes of a stream, limits them and retransmits them, so a [`Connection`] only turns the bytes of request
//! streams into requests, and answers into bytes. Requests come out as soon as their field sections are complete, and are
//! answered at once: their content is counted and discarded. No server push.

// The state machine, and responses.
mod connection;
mod encode;
mod respond;

// Request streams: frames and field sections.
mod frame;
mod request;
mod sections;

// The peer's unidirectional streams.
mod control;
mod peer_streams;
mod unidirectional;

// Settings, error codes and numbers.
mod error;
mod settings;
mod stream_id;
mod varint;

pub use connection::{Connection, RequestEnd, Step};
pub use error::ErrorCode;
pub use stream_id::StreamId;
pub use unidirectional::Reading;
