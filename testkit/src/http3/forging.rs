//! QUIC clients that send a test's own frames: packets are those of a correct client, but with other frames in them.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

const TAG_BYTES: usize = 16;

/// The packets that carry forged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// Packets with early data (0-RTT).
    Early,
    /// Packets with a short header (1-RTT).
    Application,
}

/// Frames that are sent instead of the client's own, each in the next packet that has room for them. The rest of such a packet is
/// padding. Packets from the server may be lost on purpose.
#[derive(Clone, Default)]
pub struct Forgery {
    waiting: Arc<Mutex<[VecDeque<Vec<u8>>; 4]>>,
    lost: Arc<Mutex<Option<Lost>>>,
}

/// Chooses packets with a short header that are lost, by their numbers.
type Lost = Box<dyn FnMut(u64) -> bool + Send>;

impl Forgery {
    /// Adds the frames of a packet.
    pub fn push(&self, level: Level, frames: Vec<u8>) {
        self.waiting.lock().unwrap()[level as usize].push_back(frames);
    }

    /// Returns the number of packets that were not sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.lock().unwrap().iter().map(VecDeque::len).sum()
    }

    /// Loses packets with a short header from the server, chosen by their numbers. This way, the client will never acknowledge
    /// them.
    pub fn lose(&self, is_lost: impl FnMut(u64) -> bool + Send + 'static) {
        *self.lost.lock().unwrap() = Some(Box::new(is_lost));
    }

    /// Returns a client's cryptography that inserts the frames.
    #[must_use]
    pub fn wrap(&self, config: Arc<dyn ClientConfig>) -> Arc<dyn ClientConfig> {
        Arc::new(ForgingConfig { config, forgery: self.clone() })
    }

    fn replace(&self, level: Level, payload: &mut [u8]) {
        let mut waiting = self.waiting.lock().unwrap();
        let waiting = &mut waiting[level as usize];
        if waiting.front().is_some_and(|frames| frames.len() <= payload.len()) {
            let frames = waiting.pop_front().expect("the first");
            payload.fill(0);
            payload[..frames.len()].copy_from_slice(&frames);
        }
    }

    fn key(&self, level: Level, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(ForgingKey { key, level, forgery: self.clone() })
    }

    fn keys(&self, level: Level, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.key_pair(level, keys.packet) }
    }

    fn key_pair(&self, level: Level, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(level, keys.local), remote: self.key(level, keys.remote) }
    }
}

impl fmt::Debug for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forgery").field("waiting", &self.waiting()).finish()
    }
}

struct ForgingConfig {
    config: Arc<dyn ClientConfig>,
    forgery: Forgery,
}

impl ClientConfig for ForgingConfig {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.config).start_session(version, server_name, parameters)?;
        Ok(Box::new(ForgingSession { session, forgery: self.forgery.clone(), level: Level::Handshake }))
    }
}

struct ForgingSession {
    session: Box<dyn Session>,
    forgery: Forgery,
    /// The level of the next keys.
    level: Level,
}

impl Session for ForgingSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.forgery.keys(Level::Initial, self.session.initial_keys(id, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.session.early_crypto()?;
        Some((header, self.forgery.key(Level::Early, packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, messages: &[u8]) -> Result<bool, TransportError> {
        self.session.read_handshake(messages)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, messages: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.session.write_handshake(messages)?;
        let level = std::mem::replace(&mut self.level, Level::Application);
        Some(self.forgery.keys(level, keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.session.next_1rtt_keys()?;
        Some(self.forgery.key_pair(Level::Application, keys))
    }

    fn is_valid_retry(&self, original_id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(original_id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

struct ForgingKey {
    key: Box<dyn PacketKey>,
    level: Level,
    forgery: Forgery,
}

impl PacketKey for ForgingKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        let end = packet.len() - TAG_BYTES;
        self.forgery.replace(self.level, &mut packet[header_bytes..end]);
        self.key.encrypt(number, packet, header_bytes);
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let mut lost = self.forgery.lost.lock().unwrap();
        if self.level == Level::Application && lost.as_mut().is_some_and(|is_lost| is_lost(number)) {
            return Err(CryptoError);
        }
        self.key.decrypt(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
