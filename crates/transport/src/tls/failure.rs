//! Errors that end a session, with their wording for the log.
//!
//! They contain neither keys nor any bytes that were sent through the session.

/// Ends a session. An alert for it has already been appended to the records to be sent, if the peer
/// speaks TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The first bytes are not a TLS record (the peer's fault).
    #[error("the peer does not speak TLS")]
    NotTls,

    /// The first bytes are a plaintext HTTP request, sent to the TLS port (the peer's fault).
    #[error("the peer sent plain HTTP to a port for TLS")]
    PlainHttp,

    /// The handshake exceeds [`crate::limits::HANDSHAKE_BYTES_MAX`] (the peer's fault).
    #[error("the peer's handshake is longer than {} bytes", crate::limits::HANDSHAKE_BYTES_MAX)]
    HandshakeTooLong,

    /// The peer and the server have no version, cipher suite, group or protocol in common (which is not the
    /// fault of either side).
    #[error("the peer and this server have nothing in common: {0}")]
    Incompatible(String),

    /// The peer has ended the session with an alert, e.g. because it does not trust the
    /// certificate.
    #[error("the peer sent an alert: {0}")]
    Alert(String),

    /// A record has failed authentication. It was damaged in transit, or forged.
    #[error("a record of the peer is damaged or forged")]
    Damaged,

    /// The peer has violated the protocol, or has repeated something so often that we need to consider it a
    /// denial of service.
    #[error("the peer violated the TLS protocol: {0}")]
    Misbehaved(String),

    /// A key has sealed as many records as it may, and it cannot be updated in this TLS version.
    #[error("the key of this connection has reached its limit")]
    KeyExhausted,

    /// The caller has used the session in the wrong state, or the library has failed.
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
