//! Peers from the `h2` crate: its client sends us requests, and its server gets the same bytes as we do.
//!
//! Both are plain functions from bytes, for seeds and for fuzz targets. They panic on a difference. There is
//! no runtime, no clock and no socket: the two sides are polled in turn.

mod client;
pub(crate) mod end;
mod ours;
mod pipe;
mod server;

pub use client::client;
pub use server::server;
