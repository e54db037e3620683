//! Our HTTP/2 held against that of the `h2` crate: its client asks us, and its server is handed the bytes that we are.
//!
//! Plain functions from bytes, for the tests of seeds and for the fuzz targets alike: they return where nothing is wrong,
//! and panic where something is. There is no runtime, no clock and no socket: both sides are asked in turn.

mod choices;
mod client;
pub(crate) mod end;
mod ours;
mod pipe;
mod server;

pub use client::client;
pub use server::server;
