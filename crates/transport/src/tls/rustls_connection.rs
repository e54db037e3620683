//! The connection interface of `rustls`, as little of it as we need: records in, records out, and keys at the end.
//!
//! No other file depends on that interface, which changes with the next version of `rustls`
//! (`docs/design/tls.md`).

use std::sync::Arc;

use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, Error, ProtocolVersion, ServerConfig};

use super::record::RecordProtection;
use crate::{Failure, HandshakeKind, Protocol, Version};

/// A connection of `rustls` that is only used for the handshake.
pub(super) struct RustlsConnection(UnbufferedServerConnection);

/// Result of [`RustlsConnection::process`].
pub(super) struct ProcessOutcome {
    /// Number of bytes at the start of the records that were consumed. The others are parts of a message, and have to
    /// be passed again, in the state they were left in.
    pub(super) consumed: usize,
    /// Whether the peer has closed the session.
    pub(super) peer_has_closed: Result<bool, Error>,
}

/// Keys for both directions of a session.
pub(super) struct TrafficKeys {
    pub(super) opening: RecordProtection,
    pub(super) sealing: RecordProtection,
    /// `None` in TLS 1.2, which does not have key updates.
    pub(super) schedule: Option<KeySchedule>,
}

/// Derives the keys that follow a key update.
pub(super) struct KeySchedule(Box<KernelConnection<ServerConnectionData>>);

impl RustlsConnection {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self(UnbufferedServerConnection::new(config)?))
    }

    /// Processes whole records and appends the response to `output`, including the alert for an error.
    pub(super) fn process(&mut self, records: &mut [u8], output: &mut Vec<u8>) -> ProcessOutcome {
        let mut consumed = 0;
        let peer_has_closed = loop {
            let UnbufferedStatus { discard, state } = self.0.process_tls_records(&mut records[consumed..]);
            consumed += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, output),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => break Ok(true),
                Ok(_) => break Ok(false),
                Err(error) => {
                    self.take_alert(&mut records[consumed..], output);
                    break Err(error);
                }
            }
        };
        ProcessOutcome { consumed, peer_has_closed }
    }

    /// Appends the alert for an error, stopping before the records would be processed again.
    fn take_alert(&mut self, records: &mut [u8], output: &mut Vec<u8>) {
        while self.0.wants_write() {
            match self.0.process_tls_records(records).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, output),
                _ => return,
            }
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Returns the version, once it was negotiated.
    pub(super) fn version(&self) -> Option<Version> {
        match self.0.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some(Version::Tls13),
            _ => Some(Version::Tls12),
        }
    }

    pub(super) fn protocol(&self) -> Option<Protocol> {
        self.0.alpn_protocol().map(Protocol::from_alpn_name)
    }

    pub(super) fn handshake_kind(&self) -> HandshakeKind {
        self.0.handshake_kind().into()
    }

    /// Takes over the keys after the handshake, once all output was taken.
    pub(super) fn into_keys(self) -> Result<TrafficKeys, Failure> {
        let version = self.version().unwrap_or(Version::Tls12);
        let (secrets, schedule) = self.0.dangerous_into_kernel_connection()?;
        Ok(TrafficKeys {
            opening: protection(version, secrets.rx)?,
            sealing: protection(version, secrets.tx)?,
            schedule: (version == Version::Tls13).then(|| KeySchedule(Box::new(schedule))),
        })
    }
}

impl KeySchedule {
    /// Returns the peer's next key.
    pub(super) fn next_opening(&mut self) -> Result<RecordProtection, Failure> {
        protection(Version::Tls13, self.0.update_rx_secret()?)
    }

    /// Returns our next key.
    pub(super) fn next_sealing(&mut self) -> Result<RecordProtection, Failure> {
        protection(Version::Tls13, self.0.update_tx_secret()?)
    }
}

/// Takes over a direction in which the given number of records have already been protected.
fn protection(
    version: Version,
    (sequence, secrets): (u64, ConnectionTrafficSecrets),
) -> Result<RecordProtection, Failure> {
    RecordProtection::new(version, sequence, &secrets)
        .ok_or_else(|| Failure::Internal("an unknown cipher".to_owned()))
}

/// Appends a record from `rustls`. When given an empty buffer, `rustls` tells us the size that it
/// needs.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, output: &mut Vec<u8>) {
    let start = output.len();
    if let Err(EncodeError::InsufficientSize(short)) = data.encode(&mut []) {
        output.resize(start + short.required_size, 0);
        let _ = data.encode(&mut output[start..]);
    }
}
