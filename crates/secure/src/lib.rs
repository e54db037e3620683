//! TLS and QUIC without I/O: decrypts what a client sends and encrypts what the server sends, in the caller's buffers.
//!
//! A [`Context`] holds what all connections share: [`Certificates`] by name, the keys of session tickets, versions and
//! protocols. A [`Session`] belongs to one connection and opens and seals its records. Files are read in one place, when
//! [`Certificates`] are loaded; a session touches no file, makes no system call and reads no clock.
//!
//! `rustls` does the handshake, the signatures and the key schedule. Its types don't appear in this crate's interface, so
//! that its next version changes this crate alone. We protect the records after the handshake ourselves; [`record`]
//! explains why.
//!
//! [`quic`] has the transport of HTTP/3, with the same certificates.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Limits on work and memory that a peer can cause.
pub mod limits;

// Certificates: loading, checking, and selection by server name.
mod asn1;
mod certificates;
mod error;
mod files;
mod names;
mod ocsp;
mod self_signed;
mod validity;
mod warning;

// Session tickets.
mod seed;
mod tickets;

// The context that all sessions share, and one connection's session.
mod context;
mod failure;
mod outcome;
mod protocol;
mod session;

// The stages of a session: the handshake, and records after it.
mod established;
mod handshake;
mod record;
mod record_split;

// QUIC, with the certificates and secrets of a context.
pub mod quic;

// The client that the tests share refers to this crate by its name.
#[cfg(test)]
extern crate self as cannery_secure;
#[cfg(test)]
mod differential;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use certificates::{Certificates, Source, Summary};
pub use context::{Context, Settings};
pub use error::Error;
pub use failure::Failure;
pub use outcome::{HandshakeKind, HandshakePermit, HandshakeStep, OpenOutcome};
pub use protocol::{Protocol, Version};
pub use seed::{SEED_BYTES, Seed};
pub use self_signed::SelfSigned;
pub use session::Session;
pub use warning::Warning;
