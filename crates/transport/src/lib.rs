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
//! TLS records ourselves (see `tls/record.rs` for the reasons).
//!
//! The transport for HTTP/3 is implemented in [`quic`], using the same certificates.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// QUIC: endpoints, connections and streams. The handshake is that of TLS.
pub mod quic;

// TLS over TCP: the context of a server, and the session of each connection.
mod tls;

// Certificates and keys, from files to the selection by server name; the seed of all secrets, and session tickets.
mod credentials;

// Why settings or credentials are refused.
mod error;

// Limits for work and memory that a peer can cause.
pub mod limits;

// Tests share a client that refers to this crate by name.
#[cfg(test)]
extern crate self as cannery_transport;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use credentials::certificates::{Certificates, Source, Summary};
pub use credentials::seed::{SEED_BYTES, Seed};
pub use credentials::self_signed::SelfSigned;
pub use credentials::ticket_seed::TicketSeed;
pub use credentials::warning::Warning;
pub use error::Error;
pub use tls::context::{Context, Settings};
pub use tls::failure::Failure;
pub use tls::outcome::{HandshakeKind, HandshakePermit, HandshakeStep, OpenOutcome};
pub use tls::protocol::{Protocol, Version};
pub use tls::session::Session;
