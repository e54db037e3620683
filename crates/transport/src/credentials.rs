//! Certificates that prove a server's identity, and the seed that its secrets are derived from.
//!
//! [`Certificates`](certificates::Certificates) are loaded from files, checked, and selected by server name. The
//! [`Seed`](seed::Seed) is shared by processes, which derive the same ticket keys from it.

// Loads, checks and selects certificates.
pub(crate) mod certificates;

// Temporary certificates.
pub(crate) mod self_signed;

// Reads PEM files and OCSP responses.
mod files;

// Compresses certificate messages.
pub(crate) mod compression;

// Finds certificates by server name.
mod names;

// Checks OCSP responses.
mod ocsp;

// Periods of validity.
pub(crate) mod validity;

// IP addresses of certificates.
mod addresses;

// Parses what these have in common.
mod asn1;

// Faults that do not keep us from serving.
pub(crate) mod warning;

// Encrypts session tickets.
pub(crate) mod tickets;

// The secret that processes share.
pub(crate) mod seed;

// A secret that machines share.
pub(crate) mod ticket_seed;
