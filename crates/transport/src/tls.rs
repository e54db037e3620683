//! TLS over TCP (RFC 8446, RFC 5246): what a server's sessions share, and the session of one connection.
//!
//! A session has two stages: `rustls` makes the handshake, and our code protects the records after it.

// What all sessions share.
pub(crate) mod context;

// The session of one connection.
pub(crate) mod session;

// Its first stage.
mod handshake;

// Its second stage.
mod established;

// What we need of a `rustls` connection, and nothing else.
mod rustls_connection;

// How content is split into records.
mod record_split;

// How records are protected.
mod record;

// Why a session ends.
pub(crate) mod failure;

// What a call has done.
pub(crate) mod outcome;

// What was negotiated.
pub(crate) mod protocol;

#[cfg(test)]
mod differential;
