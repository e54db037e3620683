//! The secure transports below HTTP: TLS over TCP, and QUIC. Both are state machines without I/O, which
//! decrypt data from a client and encrypt data for it, using the caller's buffers.
//!
//! A [`Context`] contains everything that connections share, namely [`Certificates`], the keys of session
//! tickets, versions and protocols. A [`Session`] belongs to one connection, and opens and seals its records.
//! Files are only read when [`Certificates`] are loaded; sessions do not access any files, make any system
//! calls, or read the clock.
//!
//! We use `rustls` for the handshake, signatures and the key schedule. However, its types are not part of our
//! interface, so new versions of `rustls` should only affect this crate. After the handshake, we protect
//! records ourselves (see [`record`] for the reasons).
//!
//! The transport for HTTP/3 is implemented in [`quic`], using the same certificates.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Limits for work and memory that a peer can cause.
pub mod limits;

// Certificates: loads, checks and selects them by server name.
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

// The context that all sessions share, and the session of one connection.
mod context;
mod failure;
mod outcome;
mod protocol;
mod session;

// Stages of a session: the handshake, and the records after it.
mod established;
mod handshake;
mod record;
mod record_split;

// QUIC, using the certificates and secrets of a context.
pub mod quic;

// Tests share a client that refers to this crate by name.
#[cfg(test)]
extern crate self as cannery_transport;
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
