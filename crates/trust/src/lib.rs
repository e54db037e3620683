//! Statements about releases, their signatures, and what was accepted before.
//!
//! A publisher signs a short text, the [`Statement`], rather than the archive. Its digests cover every byte of the archive, so a
//! machine can verify the signature before it transfers anything, and a rollback needs a new signature but not the archive.
//! Signatures and keys have the formats of minisign.
//!
//! Statements have a rising sequence number. A machine keeps the last one, and refuses older statements, which were valid once.
//!
//! This crate is internal to Cannery, that is, its interface may change in any release. Programs should use the `cannery`
//! crate instead.

#![forbid(unsafe_code)]

// The keys and the site that a machine accepts.
mod policy;

// The last statement that was accepted.
mod seen;

// Public keys and signatures.
mod keys;

// The text that is signed.
mod statement;

// Bounds of what is read.
pub mod limits;

pub use keys::{KeyError, PublicKeys, SignatureError, Signed};
pub use policy::{Policy, Untrusted};
pub use seen::{Seen, TrustError};
pub use statement::{Statement, StatementError, is_site_name};
