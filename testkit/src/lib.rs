//! HTTP/1.1, HTTP/2, HTTP/3 and TLS clients for tests. In addition, there are a relay that impairs the path of datagrams, a
//! generated site of many files, and choices from seeds.
//!
//! The clients check each response strictly: if one violates the protocol, the test will fail with a panic. They can send any bytes
//! because we also need to test how the server handles violations. Note that this crate must *not* import crates of the product;
//! otherwise, their errors could be repeated in the tests.

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
