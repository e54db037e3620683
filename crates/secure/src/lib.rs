//! TLS without I/O: bytes of the network in, plain bytes out, and back.
//!
//! A [`Context`] holds what all connections share: [`Certificates`] by name, the keys of tickets, versions and
//! protocols. A [`Session`] is one connection's: it opens the records that came and seals what is to be sent,
//! in buffers of its caller. Files are read in one place, when [`Certificates`] are loaded; no session touches
//! one, makes a system call or looks at a clock of its own.
//!
//! The handshake, certificates' signatures and key schedules are those of `rustls`, whose types show nowhere: the next
//! version of it is a change to this crate alone. The records behind the handshake are ours ([`record`] says why).

#![forbid(unsafe_code)]

pub mod limits;

mod certificates;
mod der;
mod error;
mod files;
mod names;
mod ocsp;
mod self_signed;
mod validity;
mod warning;

mod seed;
mod tickets;

mod context;
mod failure;
mod outcome;
mod protocol;
mod session;
mod version;

mod established;
mod handshake;
mod record;
mod record_split;

// The other end that tests speak to names this crate as they do.
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
pub use outcome::Opened;
pub use protocol::Protocol;
pub use seed::{SEED_BYTES, Seed};
pub use self_signed::SelfSigned;
pub use session::Session;
pub use version::Version;
pub use warning::Warning;
