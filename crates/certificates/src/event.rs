//! Events of certificates, for operators and programs.

use std::path::Path;

use crate::clock::Timestamp;
use crate::error::Error;

/// An event of one certificate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An order is about to be placed.
    Ordering {
        /// The first name of the certificate, as in file names.
        certificate: &'a str,
        /// Whether the order names the certificate that it replaces.
        replaces: bool,
    },
    /// A certificate is in the folder.
    Issued {
        /// The first name of the certificate.
        certificate: &'a str,
        /// The bundle.
        path: &'a Path,
        /// When it expires.
        not_after: Timestamp,
        /// When it will be renewed, unless the authority says otherwise.
        renews_at: Option<Timestamp>,
    },
    /// The moment of the renewal is known, or has changed.
    Planned {
        /// The first name of the certificate.
        certificate: &'a str,
        /// The moment.
        renews_at: Timestamp,
    },
    /// An attempt has failed. The certificate in the folder stays.
    Failed {
        /// The first name of the certificate.
        certificate: &'a str,
        /// The reason.
        error: &'a Error,
        /// The remedy.
        hint: Option<&'a str>,
        /// The next attempt.
        next_at: Timestamp,
    },
    /// Our own check of a name has failed, and the certificate is ordered nevertheless.
    CheckFailed {
        /// The first name of the certificate.
        certificate: &'a str,
        /// The reason.
        error: &'a Error,
        /// The remedy.
        hint: Option<&'a str>,
    },
    /// The authority gave no advice. Without advice, certificates are renewed in time, too.
    NoAdvice {
        /// The first name of the certificate.
        certificate: &'a str,
        /// The reason.
        error: &'a Error,
    },
}
