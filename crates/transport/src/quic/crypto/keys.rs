//! Packet and header keys after the Initial ones, as derived by `rustls` (RFC 9001 §5).
//!
//! Note that using a key takes two virtual calls per packet: `rustls` returns the keys of our
//! suites ([`suites`](super::suites)) as trait objects, and `quinn-proto` has its own trait
//! objects.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, KeyPair, Keys};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Secrets};

use super::header::{HeaderParts, SAMPLE_BYTES};
use crate::quic::packets::TAG_BYTES;
use crate::quic::packets::contents::{self, Level};
use crate::quic::packets::records::Records;

/// Keys for both directions of a packet number space.
pub(super) struct ProtectionKeys {
    local: (HeaderKey, PacketKey),
    remote: (HeaderKey, PacketKey),
}

impl From<rustls::quic::Keys> for ProtectionKeys {
    fn from(keys: rustls::quic::Keys) -> Self {
        let wrap = |keys: DirectionalKeys| (HeaderKey(keys.header), PacketKey(keys.packet));
        Self { local: wrap(keys.local), remote: wrap(keys.remote) }
    }
}

/// Protects the packets for the rest of the handshake.
///
/// In order to send a packet that these keys can open, the client must have received one of ours, which
/// validates its address (RFC 9000 §8.1).
pub(super) struct HandshakeKeys {
    keys: ProtectionKeys,
    records: Arc<Records>,
}

impl HandshakeKeys {
    /// Creates keys that record which packets were opened.
    pub(super) fn new(keys: rustls::quic::Keys, records: Arc<Records>) -> Self {
        Self { keys: keys.into(), records }
    }
}

impl From<HandshakeKeys> for Keys {
    fn from(HandshakeKeys { keys, records }: HandshakeKeys) -> Self {
        let (local, remote) = (keys.local, keys.remote);
        let opening = RecordingKey { key: remote.1, level: Level::Handshake, records };
        Keys {
            header: KeyPair { local: Box::new(local.0), remote: Box::new(remote.0) },
            packet: KeyPair { local: Box::new(local.1), remote: Box::new(opening) },
        }
    }
}

/// Protects the first packets with application data.
pub(super) struct TrafficKeys {
    keys: ProtectionKeys,
    records: Arc<Records>,
}

impl TrafficKeys {
    /// Creates keys that record which packets were opened.
    pub(super) fn new(keys: rustls::quic::Keys, records: Arc<Records>) -> Self {
        Self { keys: keys.into(), records }
    }
}

impl From<TrafficKeys> for Keys {
    fn from(TrafficKeys { keys, records }: TrafficKeys) -> Self {
        let (local, remote) = (keys.local, keys.remote);
        let packet = recording(KeyPair { local: local.1, remote: remote.1 }, &records);
        Keys { header: KeyPair { local: Box::new(local.0), remote: Box::new(remote.0) }, packet }
    }
}

/// Returns keys that record packets with application data.
fn recording<K: crypto::PacketKey + 'static>(
    keys: KeyPair<K>,
    records: &Arc<Records>,
) -> KeyPair<Box<dyn crypto::PacketKey>> {
    let key = |key| {
        let records = records.clone();
        Box::new(RecordingKey { key, level: Level::Application, records }) as Box<dyn crypto::PacketKey>
    };
    KeyPair { local: key(keys.local), remote: key(keys.remote) }
}

/// Opens early data packets (0-RTT).
pub(super) struct EarlyKeys {
    keys: DirectionalKeys,
    records: Arc<Records>,
}

impl EarlyKeys {
    /// Creates keys that record which packets were opened.
    pub(super) fn new(keys: DirectionalKeys, records: Arc<Records>) -> Self {
        Self { keys, records }
    }
}

impl From<EarlyKeys> for (Box<dyn crypto::HeaderKey>, Box<dyn crypto::PacketKey>) {
    fn from(EarlyKeys { keys, records }: EarlyKeys) -> Self {
        let packet = RecordingKey { key: PacketKey(keys.packet), level: Level::Early, records };
        (Box::new(HeaderKey(keys.header)), Box::new(packet))
    }
}

/// Keys for later key phases (RFC 9001 §6), each of which is derived when it is first used.
///
/// `quinn-proto` requests keys one phase in advance because the timing of an update might otherwise tell
/// an observer anything. However, only few connections ever update their keys, and each would need more
/// than a kilobyte for them. The downside of deriving them late is that an observer may learn when the
/// keys are first updated, and that a forged packet can cause one derivation.
pub(super) struct LaterKeys {
    secrets: Arc<Mutex<Secrets>>,
    limits: Limits,
    records: Arc<Records>,
    /// The last phase that was requested.
    last: Option<Arc<KeyPhase>>,
}

/// Limits of the algorithm, in packets.
#[derive(Clone, Copy)]
struct Limits {
    confidentiality: u64,
    integrity: u64,
}

/// Packet keys of a phase.
struct KeyPhase {
    /// Secrets of the first phase that has not been derived.
    secrets: Arc<Mutex<Secrets>>,
    limits: Limits,
    keys: OnceLock<KeyPair<PacketKey>>,
}

impl LaterKeys {
    /// Creates the keys for all phases after the first.
    pub(super) fn new(secrets: Secrets, first: &TrafficKeys) -> Self {
        let key = &first.keys.remote.1.0;
        let limits =
            Limits { confidentiality: key.confidentiality_limit(), integrity: key.integrity_limit() };
        let records = first.records.clone();
        Self { secrets: Arc::new(Mutex::new(secrets)), limits, records, last: None }
    }

    /// Returns the keys for the next phase.
    pub(super) fn next(&mut self) -> KeyPair<Box<dyn crypto::PacketKey>> {
        // Each secret follows from the previous one, so we have to derive the phases in order.
        if let Some(last) = &self.last {
            last.keys();
        }
        let (secrets, limits) = (self.secrets.clone(), self.limits);
        let phase = Arc::new(KeyPhase { secrets, limits, keys: OnceLock::new() });
        self.last = Some(phase.clone());

        let remote = LaterKey { phase: phase.clone(), select: |keys| &keys.remote };
        let local = LaterKey { phase, select: |keys| &keys.local };
        recording(KeyPair { local, remote }, &self.records)
    }
}

impl KeyPhase {
    fn keys(&self) -> &KeyPair<PacketKey> {
        self.keys.get_or_init(|| {
            let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            let keys = secrets.next_packet_keys();
            KeyPair { local: PacketKey(keys.local), remote: PacketKey(keys.remote) }
        })
    }
}

/// A key of a later phase.
struct LaterKey {
    phase: Arc<KeyPhase>,
    select: fn(&KeyPair<PacketKey>) -> &PacketKey,
}

impl LaterKey {
    fn key(&self) -> &PacketKey {
        (self.select)(self.phase.keys())
    }
}

impl crypto::PacketKey for LaterKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        self.key().encrypt(number, packet, header_bytes);
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key().decrypt(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        self.phase.limits.confidentiality
    }

    fn integrity_limit(&self) -> u64 {
        self.phase.limits.integrity
    }
}

/// A key that records the packets it opens or seals.
struct RecordingKey<K> {
    key: K,
    level: Level,
    records: Arc<Records>,
}

impl<K: crypto::PacketKey> crypto::PacketKey for RecordingKey<K> {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        let bytes = if self.records.limits_packets() {
            self.records.lock().limit(number, packet, header_bytes)
        } else {
            packet.len()
        };
        if let Some(payload) = packet.get(header_bytes..bytes.saturating_sub(TAG_BYTES)) {
            self.records.seal_packet(number, payload);
        }
        self.key.encrypt(number, &mut packet[..bytes], header_bytes);
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(number, header, payload)?;
        match self.level {
            Level::Handshake => self.records.open_handshake_packet(),
            Level::Application => self.records.open_packet(number),
            Level::Initial | Level::Early => {}
        }
        contents::receive(self.level, header, payload, Some(&self.records));
        Ok(())
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

/// Protects headers in one direction.
struct HeaderKey(Box<dyn HeaderProtectionKey>);

impl crypto::HeaderKey for HeaderKey {
    fn decrypt(&self, number_start: usize, packet: &mut [u8]) {
        let opened = HeaderParts::split(number_start, packet)
            .map(|parts| self.0.decrypt_in_place(parts.sample, parts.first, parts.packet_number));
        // If it remains protected, the packet will fail authentication.
        debug_assert!(matches!(opened, Some(Ok(()))), "a packet has a sample");
    }

    fn encrypt(&self, number_start: usize, packet: &mut [u8]) {
        let parts =
            HeaderParts::split(number_start, packet).expect("packets that we send are padded for a sample");
        let sealed = self.0.encrypt_in_place(parts.sample, parts.first, parts.packet_number);
        sealed.expect("the sample has the key's length");
    }

    fn sample_size(&self) -> usize {
        SAMPLE_BYTES
    }
}

/// Protects payloads in one direction.
struct PacketKey(Box<dyn rustls::quic::PacketKey>);

impl crypto::PacketKey for PacketKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        let (header, rest) = packet.split_at_mut(header_bytes);
        let (payload, tag) =
            rest.split_last_chunk_mut::<TAG_BYTES>().expect("a packet that we send has space for its tag");
        let computed = self.0.encrypt_in_place(number, header, payload);
        tag.copy_from_slice(computed.expect("a packet is shorter than the algorithm's limit").as_ref());
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let opened = self.0.decrypt_in_place(number, header, payload);
        let bytes = opened.map_err(|_| CryptoError)?.len();
        payload.truncate(bytes);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}
