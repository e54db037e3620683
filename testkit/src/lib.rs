//! HTTP/1.1, HTTP/2 and TLS clients for tests, over any stream or in memory.
//!
//! The clients are strict about what they receive: a response that breaks a rule of the protocol fails the test with a
//! panic. They are free in what they send, so that a test can break the rules itself. They import no crate of the
//! product, so an error there cannot hide itself here.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests: a panic is the report")]

mod response;

pub mod http1;
pub mod http2;
#[cfg(feature = "tls")]
pub mod tls;

pub use response::{Ended, Response};
