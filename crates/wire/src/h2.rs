//! One HTTP/2 connection (RFC 9113), as far as a server of files needs it, with priorities (RFC 9218).
//!
//! Requests come out as soon as their heads are whole and are answered at once: their content is thrown away. An answer
//! that is small and that the peer has room for leaves with its head, and makes no stream; any other waits as a stream
//! for its turn ([`Connection::fill`]). Never pushes, never makes a system call, never reads a clock.

mod abuse;
mod body;
mod connection;
mod control;
mod encode;
mod error;
mod flow;
mod frame;
mod priority;
mod request;
mod respond;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use connection::{Awaits, Connection, Step, StreamId};
pub use error::ErrorCode;
pub use frame::PREFACE;
pub use request::HeadStore;
