//! The protocols above TLS, and the names by which clients ask for them. Knows nothing of what they say.

/// What is spoken inside, agreed on by ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 for those who ask for that.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// The names that clients ask for it by.
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http11 => vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
        }
    }

    /// The protocol of one of these names.
    pub(crate) fn named(name: &[u8]) -> Self {
        if name == b"h2" { Self::Http2 } else { Self::Http11 }
    }
}
