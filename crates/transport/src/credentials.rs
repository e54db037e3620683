//! What a server proves its identity with, and what it derives its secrets from.
//!
//! [`Certificates`](certificates::Certificates) are loaded from files, checked, and selected by server name. The
//! [`Seed`](seed::Seed) is shared by processes, which derive the same ticket keys from it.

pub(crate) mod certificates; // Loads, checks and selects certificates.
pub(crate) mod self_signed; // Temporary certificates.
pub(crate) mod warning; // Faults that we can serve with.

mod asn1;
mod files; // Reads PEM files and OCSP responses.
mod names; // Finds certificates by server name.
mod ocsp; // Checks OCSP responses.
pub(crate) mod validity; // Periods of validity. // Parsers that these share.

pub(crate) mod seed;
pub(crate) mod tickets; // Encrypts session tickets. // The secret that processes share.
