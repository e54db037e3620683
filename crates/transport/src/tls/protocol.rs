//! TLS versions, and application protocols that are negotiated with ALPN.

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246, but only with elliptic-curve key exchange and authenticated encryption.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// Returns the version as it is printed in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        }
    }
}

/// An application protocol negotiated with ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1. Also HTTP/1.0, if a client only offers that.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// Returns the names that select this protocol, in order of preference.
    pub(super) fn alpn_names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http11 => vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
        }
    }

    /// Returns the protocol selected by one of the [`alpn_names`](Self::alpn_names).
    pub(super) fn from_alpn_name(name: &[u8]) -> Self {
        if name == b"h2" { Self::Http2 } else { Self::Http11 }
    }
}
