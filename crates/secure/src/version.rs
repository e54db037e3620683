//! TLS versions.

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246, with elliptic curves, authenticated encryption and nothing else.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// The version as logs have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        }
    }
}
