//! A session during the handshake. Records are passed to `rustls` one at a time, and we take over the keys
//! at the end.
//!
//! `rustls` only gets whole records and none after the last one that it needs. This ensures that it never
//! opens a record that follows the handshake, and that no buffered input is lost when we replace it.

use std::sync::Arc;

use rustls::{AlertDescription, PeerMisbehaved, ServerConfig};

use super::established::Established;
use super::record::{self, ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER_BYTES};
use super::rustls_connection::{ProcessOutcome, RustlsConnection};
use crate::{Failure, HandshakeKind, HandshakePermit, HandshakeStep, OpenOutcome, Protocol, Version, limits};

/// A handshake in progress.
pub(super) struct Handshake {
    connection: RustlsConnection,
    /// Handshake bytes that `rustls` has consumed.
    consumed_bytes: usize,
    /// Bytes at the start of the input that `rustls` has seen but not yet consumed because they are parts
    /// of a message.
    pending_bytes: usize,
    /// Whether our records are already encrypted. Only `rustls` can send an alert then.
    is_encrypting: bool,
}

/// Progress of a handshake.
pub(super) enum Progress {
    /// It needs more input, or permission to take an expensive step.
    Pending,
    /// Its keys can be taken over with [`Handshake::finish`].
    Done,
}

/// Result of a handshake.
pub(super) struct HandshakeResult {
    pub(super) established: Established,
    pub(super) protocol: Option<Protocol>,
    pub(super) version: Version,
    pub(super) kind: HandshakeKind,
}

impl Handshake {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        Ok(Self {
            connection: RustlsConnection::new(config)?,
            consumed_bytes: 0,
            pending_bytes: 0,
            is_encrypting: false,
        })
    }

    /// Processes handshake records in `input`, starting at `outcome.consumed`.
    pub(super) fn advance(
        &mut self,
        input: &mut [u8],
        outcome: &mut OpenOutcome,
        sealed: &mut Vec<u8>,
        permit: HandshakePermit,
    ) -> Result<Progress, Failure> {
        self.check_start(input, sealed)?;
        loop {
            let rest = &mut input[outcome.consumed..];
            let unseen = &rest[self.pending_bytes..];
            let Some(length) = record::length(unseen) else { break };

            // Encrypted records may be longer. However, `rustls` would also accept this length in plaintext,
            // so we need to check it here.
            if length > HEADER_BYTES + limits::CONTENT_BYTES_MAX && !self.is_encrypting {
                self.alert(AlertDescription::RecordOverflow, sealed);
                return Err(Failure::Misbehaved("a record is too long".to_owned()));
            }

            let kind = unseen[0];
            // Do not wait for the rest of a record that will be refused.
            let is_too_long = length > limits::RECORD_BYTES_MAX;
            if unseen.len() < length && !is_too_long {
                break;
            }
            if kind == HANDSHAKE && permit == HandshakePermit::Withheld {
                outcome.handshake_step = HandshakeStep::Deferred;
                return Ok(Progress::Pending);
            }

            // If the record is too long, the header is enough for `rustls` to refuse it.
            let end = self.pending_bytes + if is_too_long { HEADER_BYTES } else { length };
            let consumed = self.feed(&mut rest[..end], outcome, sealed)?;
            if kind == HANDSHAKE && consumed > 0 {
                outcome.handshake_step = HandshakeStep::Taken;
            }
            self.pending_bytes = end - consumed;
            outcome.consumed += consumed;
            self.consumed_bytes += consumed;

            if !self.connection.is_handshaking() {
                return Ok(Progress::Done);
            }
            if outcome.peer_has_closed {
                return Ok(Progress::Pending);
            }
        }
        self.check_length(input.len() - outcome.consumed, sealed)?;
        Ok(Progress::Pending)
    }

    /// Refuses input that cannot be the start of a handshake, before `rustls` sees it.
    fn check_start(&self, input: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.consumed_bytes > 0 || self.pending_bytes > 0 {
            return Ok(());
        }
        match input {
            [] | [_] | [CHANGE_CIPHER_SPEC..=HANDSHAKE, 3, ..] => Ok(()),
            // This record type must not come first (RFC 8446 §5).
            [_, 3, ..] => {
                self.alert(AlertDescription::UnexpectedMessage, sealed);
                Err(Failure::Misbehaved("a record of a kind that cannot come first".to_owned()))
            }
            _ if looks_like_http(input) => Err(Failure::PlainHttp),
            _ => Err(Failure::NotTls),
        }
    }

    fn check_length(&self, waiting_bytes: usize, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.consumed_bytes + waiting_bytes <= limits::HANDSHAKE_BYTES_MAX {
            return Ok(());
        }
        self.alert(AlertDescription::DecodeError, sealed);
        Err(Failure::HandshakeTooLong)
    }

    /// Passes whole records to `rustls` and appends its output to `sealed`. Returns the number of bytes
    /// consumed.
    fn feed(
        &mut self,
        records: &mut [u8],
        outcome: &mut OpenOutcome,
        sealed: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let start = sealed.len();
        let ProcessOutcome { consumed, peer_has_closed } = self.connection.process(records, sealed);
        match peer_has_closed {
            Ok(peer_has_closed) => {
                self.note_encryption(&sealed[start..]);
                outcome.peer_has_closed |= peer_has_closed;
                Ok(consumed)
            }
            Err(error) => {
                if sealed.len() == start {
                    self.alert(alert_for(&error), sealed);
                }
                Err(error.into())
            }
        }
    }

    /// Checks if these are our last records in plaintext. In TLS 1.3, this is the first flight; in TLS
    /// 1.2, it is the flight that ends with ChangeCipherSpec.
    fn note_encryption(&mut self, mut records: &[u8]) {
        self.is_encrypting |= !records.is_empty() && self.connection.version() == Some(Version::Tls13);
        while let Some(rest) = record::length(records).and_then(|length| records.get(length..)) {
            self.is_encrypting |= records[0] == CHANGE_CIPHER_SPEC;
            records = rest;
        }
    }

    /// Appends a fatal alert if `rustls` did not send one, unless it would have to be encrypted.
    fn alert(&self, alert: AlertDescription, sealed: &mut Vec<u8>) {
        if !self.is_encrypting {
            sealed.extend_from_slice(&[ALERT, 3, 3, 0, 2, 2, alert.into()]);
        }
    }

    /// Takes over the keys.
    pub(super) fn finish(self, sealed: &mut Vec<u8>) -> Result<HandshakeResult, Failure> {
        let connection = self.connection;
        let version = connection.version().unwrap_or(Version::Tls12);
        let (kind, protocol) = (connection.handshake_kind(), connection.protocol());
        let mut established = Established::new(connection.into_keys()?);

        if self.pending_bytes > 0 {
            return Err(established.refuse_fragment(sealed));
        }
        Ok(HandshakeResult { established, protocol, version, kind })
    }
}

/// Returns the alert for an error, if `rustls` does not send one.
fn alert_for(error: &rustls::Error) -> AlertDescription {
    match error {
        rustls::Error::InvalidMessage(_) => AlertDescription::DecodeError,
        rustls::Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare) => AlertDescription::IllegalParameter,
        _ => AlertDescription::UnexpectedMessage,
    }
}

/// Returns `true` if the input is the start of a plaintext HTTP request.
fn looks_like_http(input: &[u8]) -> bool {
    ["GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "PRI * "]
        .iter()
        .any(|method| input.starts_with(&method.as_bytes()[..method.len().min(input.len())]))
}
