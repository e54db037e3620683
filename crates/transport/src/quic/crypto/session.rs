//! The TLS 1.3 session of a QUIC connection, which `rustls` implements based on messages instead of
//! records (RFC 9001 §4).
//!
//! Clients have nothing to send in the session after the handshake, therefore only the secrets for future
//! keys are kept.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::{self, ExportKeyingMaterialError, KeyPair, Keys};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, ServerConnection, Version};
use rustls::{AlertDescription, ServerConfig};

use super::client_hello::HelloCheck;
use super::initial::InitialKeys;
use super::keys::{EarlyKeys, HandshakeKeys, LaterKeys, TrafficKeys};
use crate::HandshakeKind;
use crate::limits::HANDSHAKE_BYTES_MAX;
use crate::quic::packets::records::Records;

/// The server's side of a session.
pub(super) struct Session {
    stage: Stage,
    initial_keys: Arc<InitialKeys>,
    /// Keys of later key phases. `None` before the first one.
    later_keys: Option<LaterKeys>,
    /// Bytes of handshake messages that the peer has sent.
    received_bytes: usize,
    records: Arc<Records>,
}

enum Stage {
    Handshake(Box<Handshake>),
    Established { server_name: Option<Box<str>>, handshake_kind: HandshakeKind },
}

struct Handshake {
    tls: ServerConnection,
    hello: HelloCheck,
}

/// Properties of a session. `quinn-proto` passes these on without knowing them.
pub(crate) struct SessionState {
    pub(crate) server_name: Option<String>,
    pub(crate) handshake_kind: HandshakeKind,
    pub(crate) records: Arc<Records>,
}

impl Session {
    /// Creates a session that sends the given transport parameters (in encoded form).
    ///
    /// # Errors
    /// Returns an error if the configuration does not allow QUIC.
    pub(super) fn new(
        config: Arc<ServerConfig>,
        parameters: Vec<u8>,
        initial_keys: Arc<InitialKeys>,
    ) -> Result<Self, rustls::Error> {
        let tls = ServerConnection::new(config, Version::V1, parameters)?;
        Ok(Self {
            stage: Stage::Handshake(Box::new(Handshake { tls, hello: HelloCheck::default() })),
            initial_keys,
            later_keys: None,
            received_bytes: 0,
            records: Arc::default(),
        })
    }
}

fn tls_error(alert: Option<AlertDescription>, reason: String) -> TransportError {
    let code = match alert {
        Some(alert) => TransportErrorCode::crypto(alert.into()),
        None => TransportErrorCode::PROTOCOL_VIOLATION,
    };
    TransportError { code, frame: None, reason }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.initial_keys.of(id, side, Some(&self.records))
    }

    /// Returns a [`SessionState`].
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let (server_name, handshake_kind) = match &self.stage {
            Stage::Handshake(handshake) => {
                let tls = &handshake.tls;
                (tls.server_name(), tls.handshake_kind().into())
            }
            Stage::Established { server_name, handshake_kind } => (server_name.as_deref(), *handshake_kind),
        };
        Some(Box::new(SessionState {
            server_name: server_name.map(str::to_owned),
            handshake_kind,
            records: self.records.clone(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Returns the keys for early data (0-RTT), if it was accepted.
    fn early_crypto(&self) -> Option<(Box<dyn crypto::HeaderKey>, Box<dyn crypto::PacketKey>)> {
        let Stage::Handshake(handshake) = &self.stage else { return None };
        Some(EarlyKeys::new(handshake.tls.zero_rtt_keys()?, self.records.clone()).into())
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        matches!(&self.stage, Stage::Handshake(handshake) if handshake.tls.is_handshaking())
    }

    /// Returns `false` because we do not use an event for handshake data.
    fn read_handshake(&mut self, messages: &[u8]) -> Result<bool, TransportError> {
        self.received_bytes = self.received_bytes.saturating_add(messages.len());
        if self.received_bytes > HANDSHAKE_BYTES_MAX {
            return Err(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED.into());
        }
        self.records.read_handshake(messages.len());

        match &mut self.stage {
            Stage::Handshake(handshake) => {
                let Handshake { tls, hello } = &mut **handshake;
                hello.check(messages)?;
                tls.read_hs(messages).map_err(|error| tls_error(tls.alert(), error.to_string()))?;
            }
            Stage::Established { .. } => {
                let reason = "a handshake message after the handshake".to_owned();
                return Err(tls_error(Some(AlertDescription::UnexpectedMessage), reason));
            }
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Stage::Handshake(handshake) = &self.stage else { return Ok(None) };
        let encoded = handshake.tls.quic_transport_parameters();
        let decode = |encoded| TransportParameters::read(Side::Server, &mut Cursor::new(encoded));
        Ok(encoded.map(decode).transpose()?)
    }

    fn write_handshake(&mut self, messages: &mut Vec<u8>) -> Option<Keys> {
        let Stage::Handshake(handshake) = &mut self.stage else { return None };
        let tls = &mut handshake.tls;
        let written = messages.len();

        match tls.write_hs(messages) {
            Some(KeyChange::Handshake { keys }) => {
                Some(HandshakeKeys::new(keys, self.records.clone()).into())
            }
            Some(KeyChange::OneRtt { keys, next }) => {
                let keys = TrafficKeys::new(keys, self.records.clone());
                self.later_keys = Some(LaterKeys::new(next, &keys));
                Some(keys.into())
            }
            None => {
                if messages.len() == written && !tls.is_handshaking() {
                    let server_name = tls.server_name().map(Box::from);
                    let handshake_kind = tls.handshake_kind().into();
                    self.stage = Stage::Established { server_name, handshake_kind };
                }
                None
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn crypto::PacketKey>>> {
        let keys = self.later_keys.as_mut()?.next();
        self.records.begin_key_phase();
        Some(keys)
    }

    /// Always returns `false` because only clients receive Retry packets.
    fn is_valid_retry(&self, _original_id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

#[cfg(test)]
mod tests;
