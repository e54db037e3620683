//! The state of a certificate's renewal, kept on disk: attempts and their failures, and the authority's advice.
//!
//! The file is written before each attempt and after it. Other programs may read it, so its fields have names that explain
//! themselves. It contains no secrets.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The state of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// Names of the certificate, separated by commas.
    pub names: String,
    /// The directory URL of the authority that issued it.
    pub directory: String,
    /// When the certificate expires. `None` if there is none.
    pub not_after: Option<Timestamp>,
    /// When the authority has issued it. `None` if we don't know.
    pub issued_at: Option<Timestamp>,
    /// When it will be renewed, or when an order is possible again.
    pub renews_at: Option<Timestamp>,
    /// The last order, or the attempt to place one.
    pub attempt: Option<Attempt>,
    /// The directory URL of the authority of that attempt. Empty if it is `directory`.
    pub attempt_directory: String,
    /// SHA-256 of a certificate from that authority that is being put into the folder, in hex. If the process was killed meanwhile,
    /// the next one learns from it which certificate is there. Otherwise empty.
    pub pending: String,
    /// The last error since the last success.
    pub last_error: Option<LastError>,
    /// The authority's advice for the certificate that we hold.
    pub advice: Option<Advice>,
    /// The authority has refused an order that names the certificate that it replaces.
    pub refuses_replacement: bool,
    /// The operator wants another certificate, which couldn't be obtained yet.
    pub is_renewal_requested: bool,
}

/// An attempt to get a certificate. It counts as failed until it has succeeded, so a crash is a failure, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began.
    pub at: Timestamp,
    /// Failures in a row.
    pub failures: u32,
    /// No other attempt is made before this time.
    pub next_at: Timestamp,
}

/// An error, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When it was noticed.
    pub at: Timestamp,
    /// Name of the error's kind, for programs.
    pub kind: String,
    /// The error as a sentence.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// Renewal information (RFC 9773 §4.2), and the moment that we have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The suggested window. `None` if the authority gave no advice the last time we asked.
    pub window: Option<Window>,
    /// We ask again at this time.
    pub asks_again_at: Timestamp,
    /// Failures in a row.
    pub failures: u32,
}

/// The window in which a certificate should be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first second.
    pub start: Timestamp,
    /// The last second.
    pub end: Timestamp,
    /// The random moment within the window at which we renew.
    pub chosen: Timestamp,
}
