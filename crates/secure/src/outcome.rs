//! The result of opening records, and of a handshake.

/// The effect of [`Session::open`](crate::Session::open) on its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOutcome {
    /// Bytes at the start of the input that have been processed. The caller passes the remaining bytes again, as they were
    /// left, followed by those that are received next.
    pub consumed: usize,
    /// The peer has sent its close_notify, or the session has failed: later input is ignored.
    pub peer_has_closed: bool,
    /// Whether a handshake message was processed, which costs much more than a record.
    pub handshake_step: HandshakeStep,
}

/// Whether a call took an expensive step of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeStep {
    /// No handshake message was complete.
    #[default]
    None,
    /// At least one was processed.
    Taken,
    /// One is complete, and the caller did not permit its processing. The session makes no progress until it does.
    Deferred,
}

/// Whether a call may take expensive steps of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakePermit {
    /// It may.
    Granted,
    /// It must stop before the first; a later call continues there.
    Withheld,
}

/// The kind of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With a certificate.
    #[default]
    Full,
    /// With a ticket of an earlier session (RFC 8446 §2.2, RFC 5077).
    Resumed,
}

impl From<Option<rustls::HandshakeKind>> for HandshakeKind {
    fn from(kind: Option<rustls::HandshakeKind>) -> Self {
        match kind {
            Some(rustls::HandshakeKind::Resumed) => Self::Resumed,
            _ => Self::Full,
        }
    }
}
