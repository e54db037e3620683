//! HTTP/2 for tests (RFC 9113): frames as bytes, and a client that shows each of them.

mod client;
mod frame;

pub use client::{Client, Exchange, OPEN_WINDOWS, decode_response};
pub use frame::*;
pub use loona_hpack::Decoder;
