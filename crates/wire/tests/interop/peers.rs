//! Peers from the `h2` crate: a client that sends requests to us, and a server that gets the same bytes as we do.
//!
//! Both are just functions that take bytes, so that they can be used with seeds and in fuzz targets. They panic if there is a
//! difference. No runtime, clock or socket is necessary, as both sides are polled in turn.

mod client;
pub(crate) mod end;
mod ours;
mod pipe;
mod server;

pub use client::client;
pub use server::server;
