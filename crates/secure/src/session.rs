//! The TLS session of one connection: opens the records that it receives, and seals those that it sends.
//!
//! A session has no buffers: an incomplete record stays with the caller, and sealed records go into the caller's buffer.
//! Once the handshake is done, it does not allocate. It makes no system call.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::established::Established;
use crate::handshake::{Handshake, HandshakeResult, Progress};
use crate::{Failure, HandshakeKind, HandshakePermit, OpenOutcome, Protocol, Version};

/// The server's side of one session.
pub struct Session {
    stage: Stage,
    protocol: Option<Protocol>,
    version: Option<Version>,
    handshake_kind: HandshakeKind,
    /// The peer sent its close_notify, or the session failed: later input is discarded.
    read_closed: bool,
}

enum Stage {
    Handshake(Box<Handshake>),
    Established(Established),
    /// The handshake failed.
    Failed,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        Ok(Self {
            stage: Stage::Handshake(Box::new(Handshake::new(config)?)),
            protocol: None,
            version: None,
            handshake_kind: HandshakeKind::default(),
            read_closed: false,
        })
    }

    /// Returns `true` until the handshake is done, or if it failed. Sealing fails in this state.
    pub fn is_handshaking(&self) -> bool {
        !matches!(self.stage, Stage::Established(_))
    }

    /// Returns the protocol that ALPN selected; `None` if the client offers none, or before the handshake is done.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Returns the version of TLS; `None` before the handshake is done.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Returns the kind of the handshake; `Full` before it is done.
    pub fn handshake_kind(&self) -> HandshakeKind {
        self.handshake_kind
    }

    /// Limits the key that seals to `records` more records, in place of millions.
    #[cfg(test)]
    pub(crate) fn limit_key(&mut self, records: u64) {
        if let Stage::Established(established) = &mut self.stage {
            established.limit_key(records);
        }
    }

    /// Opens the records at the start of `input`, which it overwrites.
    ///
    /// Appends their content to `plain`. Appends the records to send (handshake, ticket or alert) to `sealed`, on failure
    /// too. Without a `permit` it stops before it processes a handshake message, because that is expensive.
    ///
    /// # Errors
    /// The peer violated the protocol or sent a fatal alert. Later calls discard their input.
    pub fn open(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
        permit: HandshakePermit,
    ) -> Result<OpenOutcome, Failure> {
        if self.read_closed {
            return Ok(OpenOutcome {
                consumed: input.len(),
                peer_has_closed: true,
                ..OpenOutcome::default()
            });
        }
        let mut outcome = OpenOutcome::default();
        let result = self.open_records(input, &mut outcome, plain, sealed, permit);
        self.read_closed = outcome.peer_has_closed || result.is_err();
        result.map(|()| outcome)
    }

    fn open_records(
        &mut self,
        input: &mut [u8],
        outcome: &mut OpenOutcome,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
        permit: HandshakePermit,
    ) -> Result<(), Failure> {
        if let Stage::Handshake(handshake) = &mut self.stage
            && let Progress::Done = handshake.advance(input, outcome, sealed, permit)?
            && let Stage::Handshake(handshake) = std::mem::replace(&mut self.stage, Stage::Failed)
        {
            let HandshakeResult { established, protocol, version, kind } = handshake.finish(sealed)?;
            self.stage = Stage::Established(established);
            self.protocol = protocol;
            self.version = Some(version);
            self.handshake_kind = kind;
        }
        match &mut self.stage {
            Stage::Established(established) => established.open(input, outcome, plain, sealed),
            Stage::Handshake(_) | Stage::Failed => Ok(()),
        }
    }

    /// Seals the concatenation of `runs` into records, which it appends to `sealed`.
    ///
    /// Short runs share a record. Records are small at the start of a long response, so that the peer can open the first
    /// ones early (dynamic record sizing).
    ///
    /// # Errors
    /// The handshake is not done, the session is closed, or the key has reached its limit.
    pub fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        match &mut self.stage {
            Stage::Established(established) => established.seal(runs, sealed),
            Stage::Handshake(_) | Stage::Failed => {
                Err(Failure::Internal("nothing can be sealed before the handshake is done".to_owned()))
            }
        }
    }

    /// Returns `true` if the connection should end soon, because its key is close to its limit and its TLS version has no
    /// key update (TLS 1.2). Beyond the limit, [`seal`](Self::seal) fails with [`Failure::KeyExhausted`];
    /// [`close`](Self::close) still works.
    pub fn is_near_key_limit(&self) -> bool {
        matches!(&self.stage, Stage::Established(established) if established.is_near_key_limit())
    }

    /// Starts over with small records. To be called after a pause in which everything sent was acknowledged, because the
    /// connection's congestion window may be small again.
    pub fn reset_record_size(&mut self) {
        if let Stage::Established(established) = &mut self.stage {
            established.reset_record_size();
        }
    }

    /// Seals a close_notify, once. Has no effect before the handshake is done, or after an alert ended the session.
    pub fn close(&mut self, sealed: &mut Vec<u8>) {
        if let Stage::Established(established) = &mut self.stage {
            established.close(sealed);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("is_handshaking", &self.is_handshaking())
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
