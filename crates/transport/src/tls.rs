//! TLS over TCP (RFC 8446, RFC 5246): what a server's sessions share, and the session of one connection.
//!
//! A session has two stages: `rustls` makes the handshake, and our code protects the records after it.

pub(crate) mod context; // What all sessions share.
pub(crate) mod session; // The session of one connection.

mod established; // Its second stage.
mod handshake; // Its first stage.
mod record;
mod record_split; // How content is split into records. // Protects one record.

pub(crate) mod failure; // Why a session ends.
pub(crate) mod outcome; // What a call has done.
pub(crate) mod protocol; // TLS versions and ALPN protocols.

#[cfg(test)]
mod differential;
