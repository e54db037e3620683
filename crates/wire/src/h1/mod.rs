//! One HTTP/1 connection (RFC 9112): pipelining, keep-alive, close.
//!
//! Requests come out in the order in which they were sent, and are to be answered in that order. Where the
//! next request begins is never guessed: what cannot be told ends the connection.

mod connection;
mod content;
mod parse;
mod spell;

pub use connection::{Awaits, Connection, Step, connection_option};
pub use parse::{Framing, Head};
#[cfg(test)]
pub(crate) use spell::answer_without_option as spell_answer;
pub use spell::dummy_response;
