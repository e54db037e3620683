//! Peers from the `h2` crate: a client that sends requests to us, and a server that gets the same bytes as we do.
//!
//! Both are just functions that take bytes, so that we can use them with seeds and in fuzz targets. They panic if there is a
//! difference. We do not need a runtime, a clock or a socket, since both sides are polled in turn.

mod client;
pub(crate) mod end;
mod ours;
mod pipe;
mod server;

pub use client::client;
pub use server::server;
