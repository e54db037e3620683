//! TLS over TCP (RFC 8446, RFC 5246): state that sessions share, and the session of one connection.
//!
//! A session has two stages: `rustls` makes the handshake, and our code protects the records after it.

// State that all sessions share.
pub(crate) mod context;

// The session of one connection.
pub(crate) mod session;

// Its first stage.
mod handshake;

// Its second stage.
mod established;

// The part of `rustls` that makes the handshake.
mod rustls_connection;

// How content is split into records.
mod record_split;

// How records are protected.
mod record;

// Why a session ends.
pub(crate) mod failure;

// Results of calls.
pub(crate) mod outcome;

// Versions and protocols to negotiate.
pub(crate) mod protocol;

#[cfg(test)]
mod differential;
