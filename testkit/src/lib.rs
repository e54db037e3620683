//! HTTP/1.1, HTTP/2, HTTP/3 and TLS clients for tests, a relay that impairs the path of datagrams, a generated site of many
//! files, and choices from seeds.
//!
//! The clients check each response strictly: one that violates the protocol fails the test with a panic. They send any bytes,
//! because we also test how the server handles violations. We import no crate of the product, so that an error of the product
//! is not repeated in its tests.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests: a panic is the report")]

mod choices;
mod response;

pub mod http1;
pub mod http2;
#[cfg(feature = "http3")]
pub mod http3;
#[cfg(feature = "tls")]
pub mod tls;

pub mod relay;
pub mod tiles;

pub use choices::Choices;
pub use response::{Ended, Response};
