//! HTTP/3 connections (RFC 9114), as far as a file server needs them, with priorities (RFC 9218).
//!
//! Since QUIC already takes care of ordering, flow control and retransmission, a [`Connection`] only needs to
//! turn bytes of request streams into requests, and answers into bytes. A request comes out as soon as its
//! field section is complete. Usually we answer it at once, while we count and discard its content. We do not
//! support server push.

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
