//! Peers from the `h2` crate. Its client sends requests to us. Its server gets the same bytes as we do.
//!
//! Both are just functions that take bytes, so they can be used with seeds and in fuzz targets. If there's a difference, they
//! panic. They don't need a runtime, a clock or a socket. Both sides are polled in turn.

mod client;
pub(crate) mod end;
mod ours;
mod pipe;
mod server;

pub use client::client;
pub use server::server;
