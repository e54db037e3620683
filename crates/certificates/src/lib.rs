//! Obtains TLS certificates from a certificate authority (ACME, RFC 8555), and renews them before they expire.
//!
//! An [`Issuer`] belongs to one folder. It writes each certificate with its key into a bundle, which the server reads as it does
//! any other. The server answers challenges by itself, because it only needs the thumbprint of the account key for that. So the two
//! processes share nothing but the folder, and any number of servers can answer.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// The state of a folder, for readers.
mod status;

// Keeps the certificates of a folder valid.
mod issuer;

// Events, for operators.
mod event;

// The authority: account, orders, advice.
mod acme;

// Proofs that we control a name.
mod challenge;

// When to renew: a state machine with its state on disk.
mod schedule;

// Files that are replaced as a whole, and the lock.
mod folder;

// Random moments.
mod random;

// Errors, with their remedies.
mod error;

// The fields of a certificate that we need.
mod certificate;

// DNS records that operators set once.
mod persistent_record;

// Names of certificates.
mod names;

// Clocks and limits.
mod clock;
pub mod limits;

pub use acme::{AuthoritySettings, ExternalAccount, KeyKind};
pub use challenge::{DnsHook, DnsProof, SelfCheck};
pub use clock::Timestamp;
pub use error::{Caller, Error, Evidence, Found};
pub use event::Event;
pub use folder::BundleReaders;
pub use issuer::{Issuer, Settings};
pub use names::{BadName, Name, Names};
pub use persistent_record::PersistentRecord;
pub use schedule::{Advice, Attempt, Journal, LastError, Window};
pub use status::{CertificateStatus, account_url, publish_thumbprint, request_renewal, status, thumbprint};
