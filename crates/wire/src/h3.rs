//! HTTP/3 (RFC 9114) over any QUIC implementation: streams in, requests and stream bytes out.
//!
//! [`control`] reads the peer's control stream, and [`request`] reads a request stream. Neither knows how streams are
//! transported.

pub mod control;
mod encode;
mod error;
mod frame;
pub mod request;
mod settings;
mod varint;

pub use encode::{put_data_head, put_goaway, put_headers_head};
pub use error::ErrorCode;
pub use settings::{OURS, PeerSettings};
