//! How a server is spoken to: in the clear or over TLS, HTTP/1 or HTTP/2.

/// The way of all requests of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wire {
    /// The key that the server proves itself with, if it has to.
    pub(crate) key: Option<Key>,
    pub(crate) protocol: Protocol,
}

/// The kind of a server's key. Its certificate is signed with the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    P256,
    Rsa2048,
}

/// What is spoken once a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// Agreed on by ALPN; in the clear the client knows it before.
    Http2,
}

/// HTTP/1 without TLS.
pub(crate) const CLEAR: Wire = Wire { key: None, protocol: Protocol::Http1 };

/// HTTP/1 over TLS.
pub(crate) const TLS: Wire = Wire { key: Some(Key::P256), protocol: Protocol::Http1 };

/// The same with the key of most older certificates.
pub(crate) const TLS_RSA: Wire = Wire { key: Some(Key::Rsa2048), protocol: Protocol::Http1 };

/// HTTP/2 over TLS.
pub(crate) const HTTP2: Wire = Wire { key: Some(Key::P256), protocol: Protocol::Http2 };

/// HTTP/2 without TLS, as behind a proxy.
pub(crate) const HTTP2_CLEAR: Wire = Wire { key: None, protocol: Protocol::Http2 };

impl Wire {
    /// The first part of a URL.
    pub(crate) fn scheme(self) -> &'static str {
        if self.key.is_some() { "https" } else { "http" }
    }
}

impl Key {
    /// Part of a folder's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Key::P256 => "p256",
            Key::Rsa2048 => "rsa2048",
        }
    }
}
