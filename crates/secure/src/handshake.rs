//! A session whose handshake is under way: `rustls` is handed record after record until it is done, and then hands over
//! its keys.
//!
//! It is given whole records only, and never one more than it needs: so nothing of what follows the handshake is opened by
//! it, and nothing that it keeps is lost.

use std::sync::Arc;

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{HandshakeKind, PeerMisbehaved, ProtocolVersion, ServerConfig};

use crate::established::Established;
use crate::record::{self, ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, HEAD_BYTES, Protection};
use crate::{Failure, Opened, Protocol, Version, limits};

/// Alerts that `rustls` leaves to us, in the clear (RFC 8446 §6).
const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;

/// The state of `rustls`, and how far it has come.
pub(crate) struct Handshake {
    connection: UnbufferedServerConnection,
    /// Bytes of the handshake that are done with.
    done_bytes: usize,
    /// Bytes at the start of the input that `rustls` has seen and not done with: parts of a message.
    seen_bytes: usize,
    /// Whether what is sent is sealed by now, so that `rustls` alone can send an alert.
    is_sealing: bool,
}

/// What a handshake comes to.
pub(crate) struct Done {
    pub(crate) established: Established,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) version: Version,
    pub(crate) is_resumed: bool,
}

impl Handshake {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Self { connection, done_bytes: 0, seen_bytes: 0, is_sealing: false })
    }

    /// Takes records of the handshake from `input`, from `opened.used` on; true as soon as it is done.
    pub(crate) fn advance(
        &mut self,
        input: &mut [u8],
        opened: &mut Opened,
        sealed: &mut Vec<u8>,
        may_work: bool,
    ) -> Result<bool, Failure> {
        self.check_start(input, sealed)?;
        loop {
            let rest = &mut input[opened.used..];
            let unseen = &rest[self.seen_bytes..];
            let Some(length) = record::length(unseen) else { break };
            // What is sealed may be longer. `rustls` would take as much in the clear.
            if length > HEAD_BYTES + limits::CONTENT_BYTES_MAX && !self.is_sealing {
                self.alert(RECORD_OVERFLOW, sealed);
                return Err(Failure::Misbehaved("a record is too long".to_owned()));
            }
            let (kind, is_too_long) = (unseen[0], length > limits::RECORD_BYTES_MAX);
            if unseen.len() < length && !is_too_long {
                break;
            }
            if kind == HANDSHAKE && !may_work {
                opened.is_put_off = true;
                return Ok(false);
            }
            // The head of a record that is too long is enough to be told so.
            let end = self.seen_bytes + if is_too_long { HEAD_BYTES } else { length };
            let done = self.feed(&mut rest[..end], opened, sealed)?;
            opened.has_worked |= kind == HANDSHAKE && done > 0;
            self.seen_bytes = end - done;
            opened.used += done;
            self.done_bytes += done;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            if opened.has_ended {
                return Ok(false);
            }
        }
        self.check_length(input.len() - opened.used, sealed)?;
        Ok(false)
    }

    /// Refuses what cannot begin a handshake before anything is made of it.
    fn check_start(&self, input: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.done_bytes > 0 || self.seen_bytes > 0 {
            return Ok(());
        }
        match input {
            [] | [_] | [CHANGE_CIPHER_SPEC..=HANDSHAKE, 3, ..] => Ok(()),
            // A record, but none that may come first (RFC 8446 §5).
            [_, 3, ..] => {
                self.alert(UNEXPECTED_MESSAGE, sealed);
                Err(Failure::Misbehaved("a record of a kind that cannot come first".to_owned()))
            }
            _ if looks_like_http(input) => Err(Failure::PlainHttp),
            _ => Err(Failure::NotTls),
        }
    }

    fn check_length(&self, waiting_bytes: usize, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.done_bytes + waiting_bytes <= limits::HANDSHAKE_BYTES_MAX {
            return Ok(());
        }
        self.alert(DECODE_ERROR, sealed);
        Err(Failure::HandshakeTooLong)
    }

    /// Hands whole records to `rustls` and takes what it has to say. Returns how many bytes it is done with.
    fn feed(
        &mut self,
        records: &mut [u8],
        opened: &mut Opened,
        sealed: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let (mut done, start) = (0, sealed.len());
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut records[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = sealed.len();
                    encode(&mut data, sealed);
                    self.note_sealing(&sealed[start..]);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    opened.has_ended = true;
                    return Ok(done);
                }
                Ok(_) => return Ok(done),
                Err(error) => {
                    self.take_alert(&mut records[done..], sealed);
                    if sealed.len() == start {
                        self.alert(alert_for(&error), sealed);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Remembers whether these records, which are sent, are the last in the clear: in TLS 1.3 the first ones, in TLS 1.2
    /// those that end with a change of ciphers.
    fn note_sealing(&mut self, mut records: &[u8]) {
        self.is_sealing |= self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        while let Some(rest) = record::length(records).and_then(|length| records.get(length..)) {
            self.is_sealing |= records[0] == CHANGE_CIPHER_SPEC;
            records = rest;
        }
    }

    /// Appends a fatal alert, if it may still be in the clear.
    fn alert(&self, alert: u8, sealed: &mut Vec<u8>) {
        if !self.is_sealing {
            sealed.extend_from_slice(&[ALERT, 3, 3, 0, 2, 2, alert]);
        }
    }

    /// Takes what `rustls` has to say behind an error, and no step more: it must not look at the records again.
    fn take_alert(&mut self, records: &mut [u8], sealed: &mut Vec<u8>) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(records).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, sealed),
                _ => return,
            }
        }
    }

    /// Takes the keys over.
    pub(crate) fn finish(self, sealed: &mut Vec<u8>) -> Result<Done, Failure> {
        let connection = self.connection;
        let is_tls13 = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let protocol = connection.alpn_protocol().map(Protocol::named);
        let (secrets, keys) = connection.dangerous_into_kernel_connection()?;
        let protection = |(sequence, secrets)| Protection::new(is_tls13, sequence, &secrets);
        let unknown = || Failure::Internal("a cipher that is not known".to_owned());
        let opening = protection(secrets.rx).ok_or_else(unknown)?;
        let sealing = protection(secrets.tx).ok_or_else(unknown)?;
        let mut established = Established::new(opening, sealing, is_tls13.then(|| Box::new(keys)));
        if self.seen_bytes > 0 {
            return Err(established.refuse_fragment(sealed));
        }
        let version = if is_tls13 { Version::Tls13 } else { Version::Tls12 };
        Ok(Done { established, protocol, version, is_resumed })
    }
}

/// Appends a record of `rustls`, which says how much room it needs when it has none.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, sealed: &mut Vec<u8>) {
    let start = sealed.len();
    if let Err(EncodeError::InsufficientSize(short)) = data.encode(&mut []) {
        sealed.resize(start + short.required_size, 0);
        let _ = data.encode(&mut sealed[start..]);
    }
}

/// The alert for an error about which `rustls` says none.
fn alert_for(error: &rustls::Error) -> u8 {
    match error {
        rustls::Error::InvalidMessage(_) => DECODE_ERROR,
        rustls::Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare) => ILLEGAL_PARAMETER,
        _ => UNEXPECTED_MESSAGE,
    }
}

/// Whether a request in the clear begins here.
fn looks_like_http(input: &[u8]) -> bool {
    ["GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "PRI * "]
        .iter()
        .any(|method| input.starts_with(&method.as_bytes()[..method.len().min(input.len())]))
}
