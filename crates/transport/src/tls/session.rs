//! The TLS session of a connection, which opens records that were received and seals records to be
//! sent.
//!
//! A session has no buffers of its own: incomplete records remain with the caller, and sealed records are
//! written to the caller's buffer. Once the handshake is complete, it does not allocate any memory. Note
//! that it never makes any system calls.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use rustls::ServerConfig;

use super::established::Established;
use super::handshake::{Handshake, HandshakeResult, Progress};
use crate::{Failure, HandshakeKind, HandshakePermit, OpenOutcome, Protocol, Version};

/// The server's side of a session.
pub struct Session {
    stage: Stage,
    protocol: Option<Protocol>,
    version: Option<Version>,
    handshake_kind: HandshakeKind,
    /// Whether the peer has sent close_notify or the session has failed. Any further input will be
    /// discarded.
    read_closed: bool,
}

enum Stage {
    Handshake(Box<Handshake>),
    Established(Established),
    /// The handshake failed.
    Failed,
}

impl Session {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        Ok(Self {
            stage: Stage::Handshake(Box::new(Handshake::new(config)?)),
            protocol: None,
            version: None,
            handshake_kind: HandshakeKind::default(),
            read_closed: false,
        })
    }

    /// Whether the handshake is not complete or has failed. In this state, sealing will fail.
    pub fn is_handshaking(&self) -> bool {
        !matches!(self.stage, Stage::Established(_))
    }

    /// Returns the protocol selected by ALPN, or `None` if the client does not offer any or the handshake is
    /// not complete.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Returns the TLS version. `None` if the handshake is not complete.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Returns the kind of the handshake. This is `Full` until it is complete.
    pub fn handshake_kind(&self) -> HandshakeKind {
        self.handshake_kind
    }

    /// Limits the sealing key to `records` more records, instead of millions.
    #[cfg(test)]
    pub(super) fn limit_key(&mut self, records: u64) {
        if let Stage::Established(established) = &mut self.stage {
            established.limit_key(records);
        }
    }

    /// Opens the records at the start of `input`, which is overwritten.
    ///
    /// The content is appended to `plain`. Records to be sent (handshake, ticket or alert) are appended to
    /// `sealed`, even in case of an error. Handshake messages are expensive to process, so this will stop
    /// before processing one unless there is a `permit`.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer has violated the protocol or sent a fatal alert, after which later calls
    /// will discard their input.
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

    /// Seals all of `runs` into records and appends these to `sealed`.
    ///
    /// Short runs share a record. At the start of a long response, records are small, which allows the peer
    /// to open the first ones early (dynamic record sizing).
    ///
    /// # Errors
    /// Returns an error if the handshake is not complete, the session is closed, or the key has reached its
    /// limit.
    pub fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        match &mut self.stage {
            Stage::Established(established) => established.seal(runs, sealed),
            Stage::Handshake(_) | Stage::Failed => {
                Err(Failure::Internal("nothing can be sealed before the handshake is done".to_owned()))
            }
        }
    }

    /// Whether the connection should end soon because its key is close to the limit and cannot be
    /// updated (TLS 1.2). Once the limit is reached, [`seal`](Self::seal) fails with
    /// [`Failure::KeyExhausted`], however [`close`](Self::close) will still work.
    pub fn is_near_key_limit(&self) -> bool {
        matches!(&self.stage, Stage::Established(established) if established.is_near_key_limit())
    }

    /// Goes back to small records. You should call this after a pause if everything we sent was
    /// acknowledged, because the congestion window may then be small again.
    pub fn reset_record_size(&mut self) {
        if let Stage::Established(established) = &mut self.stage {
            established.reset_record_size();
        }
    }

    /// Seals a close_notify unless this was done before, the handshake is not complete, or an alert has
    /// ended the session.
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
