//! Results of opening records, and of a handshake.

/// Result of [`Session::open`](crate::Session::open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOutcome {
    /// Number of bytes at the start of the input that were processed. Callers should pass the remaining bytes
    /// again (in the state they were left in), followed by any bytes received next.
    pub consumed: usize,
    /// The peer has sent close_notify, or the session has failed. Any later input is ignored.
    pub peer_has_closed: bool,
    /// Tells if a handshake message was processed. This is much more expensive than a record.
    pub handshake_step: HandshakeStep,
}

/// Tells if a call has taken an expensive step of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeStep {
    /// There was no complete handshake message.
    #[default]
    None,
    /// At least one message was processed.
    Taken,
    /// A message is complete, but the caller did not permit us to process it. Until it does, the session
    /// will not make any progress.
    Deferred,
}

/// Tells if a call may take expensive steps of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakePermit {
    /// It may.
    Granted,
    /// It must stop before the first expensive step. A later call can continue there.
    Withheld,
}

/// Kind of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With a certificate.
    #[default]
    Full,
    /// With a ticket from an earlier session (RFC 8446 §2.2, RFC 5077).
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
