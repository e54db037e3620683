//! The error that ends a session, in words for the log.
//!
//! Contains no byte that came through the session, and no key.

/// Ends a session. The alert for the peer, if it speaks TLS, has been appended to the records to send.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The first bytes are no TLS record (the peer's fault).
    #[error("the peer does not speak TLS")]
    NotTls,

    /// The first bytes are a plaintext HTTP request, sent to the port for TLS (the peer's fault).
    #[error("the peer sent plain HTTP to a port for TLS")]
    PlainHttp,

    /// The handshake exceeds [`crate::limits::HANDSHAKE_BYTES_MAX`] (the peer's fault).
    #[error("the peer's handshake is longer than {} bytes", crate::limits::HANDSHAKE_BYTES_MAX)]
    HandshakeTooLong,

    /// The peer and the server share no version, cipher suite, group or protocol (neither side's fault).
    #[error("the peer and this server have nothing in common: {0}")]
    Incompatible(String),

    /// The peer ended the session with an alert, for example because it does not trust the certificate.
    #[error("the peer sent an alert: {0}")]
    Alert(String),

    /// A record failed authentication: it was damaged on its way, or forged.
    #[error("a record of the peer is damaged or forged")]
    Damaged,

    /// The peer violated the protocol, or repeated something allowed until it became a denial of service.
    #[error("the peer violated the TLS protocol: {0}")]
    Misbehaved(String),

    /// A key has sealed as many records as it may, and the TLS version has no key update.
    #[error("the key of this connection has reached its limit")]
    KeyExhausted,

    /// The caller used the session in the wrong state, or the library failed.
    #[error("internal TLS error: {0}")]
    Internal(String),
}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::Alert(format!("{alert:?}")),
            rustls::Error::DecryptError => Self::Damaged,
            rustls::Error::PeerIncompatible(reason) => Self::Incompatible(format!("{reason:?}")),
            rustls::Error::NoApplicationProtocol => Self::Incompatible("NoApplicationProtocol".to_owned()),
            rustls::Error::PeerMisbehaved(_)
            | rustls::Error::InvalidMessage(_)
            | rustls::Error::InappropriateMessage { .. }
            | rustls::Error::InappropriateHandshakeMessage { .. }
            | rustls::Error::PeerSentOversizedRecord => Self::Misbehaved(error.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}
