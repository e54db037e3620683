//! The file that makes a release directory a preview.

use serde::{Deserialize, Serialize};

/// Settings of a preview.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PreviewFile {
    /// When the preview ends, in seconds since 1970.
    pub expires: Option<u64>,
    /// The password that clients must send.
    pub password: Option<PreviewPassword>,
}

/// A password, from which only its digest is kept.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewPassword {
    /// Random text that comes before the password.
    pub salt: String,
    /// BLAKE3 digest of both, in hexadecimal digits.
    pub digest: String,
    /// Whether clients may send it without TLS.
    #[serde(default)]
    pub plain: bool,
}

impl PreviewFile {
    /// The name of the file in the release directory.
    pub const NAME: &str = "preview.json";
}
