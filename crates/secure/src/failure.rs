//! Why a session ended before its time: whose fault it was, in words for the log.
//!
//! Holds nothing that came through the session, and nothing of its keys.

/// Ends a session. What is owed to the peer, an alert if it speaks TLS, was written to the sealed bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The first bytes are no record (the peer's fault).
    #[error("the peer does not speak TLS")]
    NotTls,

    /// The first bytes are a request in the clear: somebody took this port for a plain one (the peer's fault).
    #[error("the peer spoke plain HTTP to a port for TLS")]
    PlainHttp,

    /// More handshake than [`crate::limits::HANDSHAKE_BYTES_MAX`] (the peer's fault).
    #[error("the peer's handshake is longer than {} bytes", crate::limits::HANDSHAKE_BYTES_MAX)]
    HandshakeTooLong,

    /// We have nothing in common with the peer: a version, a suite, a group, a protocol (nobody's fault).
    #[error("the peer and this server have nothing in common: {0}")]
    Incompatible(String),

    /// The peer ended the session with an alert, for instance since it does not trust the certificate.
    #[error("the peer sent an alert: {0}")]
    Alert(String),

    /// A record that nobody but a damaged line or an attacker would send.
    #[error("a record of the peer is damaged or forged")]
    Damaged,

    /// The peer broke the protocol, or did something allowed so often that it only costs us.
    #[error("the peer broke the rules of TLS: {0}")]
    Misbehaved(String),

    /// A key has sealed as many records as it may, and the version knows no way to another.
    #[error("the key of this connection is used up")]
    KeyUsedUp,

    /// Something was asked for at a time when it cannot be (our caller's fault), or the library failed.
    #[error("the session cannot go on: {0}")]
    Internal(String),
}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::Alert(format!("{alert:?}")),
            rustls::Error::DecryptError => Self::Damaged,
            rustls::Error::PeerIncompatible(what) => Self::Incompatible(format!("{what:?}")),
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
