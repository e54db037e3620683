//! Keys of packets and headers after the Initial ones, which `rustls` derives (RFC 9001 §5).
//!
//! A key costs two virtual calls per packet: `rustls` returns those of the suites ([`suites`](super::suites)) as trait objects, and
//! `quinn-proto` takes trait objects of its own.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, KeyPair, Keys};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Secrets};

use super::contents::{self, Level};
use super::header::{HeaderParts, SAMPLE_BYTES};
use super::records::Records;

/// The length of the tag of every AEAD in TLS 1.3.
pub(super) const TAG_BYTES: usize = 16;

/// The keys of both directions of a packet number space.
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

/// Protects the packets that carry the rest of the handshake.
///
/// A packet that opens proves that the client has received ours, so its address is validated (RFC 9000 §8.1).
pub(super) struct HandshakeKeys {
    keys: ProtectionKeys,
    records: Arc<Records>,
}

impl HandshakeKeys {
    /// Creates keys that record which packets open.
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
    /// Creates keys that record which packets open.
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

/// Returns keys for packets with application data that record them.
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

/// Opens the packets of early data (0-RTT).
pub(super) struct EarlyKeys {
    keys: DirectionalKeys,
    records: Arc<Records>,
}

impl EarlyKeys {
    /// Creates keys that record which packets open.
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

/// The keys of the key phases after the first (RFC 9001 §6), each derived when it is first used.
///
/// `quinn-proto` requests them one phase in advance, so that the time of an update tells an observer nothing. But few connections
/// ever update their keys, and they would take more than a kilobyte of each. An observer could learn when keys are updated for
/// the first time, and a forged packet can cause one derivation.
pub(super) struct LaterKeys {
    secrets: Arc<Mutex<Secrets>>,
    limits: Limits,
    records: Arc<Records>,
    /// The phase that was requested last.
    last: Option<Arc<KeyPhase>>,
}

/// The limits of the algorithm, in packets.
#[derive(Clone, Copy)]
struct Limits {
    confidentiality: u64,
    integrity: u64,
}

/// The packet keys of a phase.
struct KeyPhase {
    /// The secrets of the first phase that was not derived.
    secrets: Arc<Mutex<Secrets>>,
    keys: OnceLock<KeyPair<PacketKey>>,
}

impl LaterKeys {
    /// Creates the keys of the phases after the first one.
    pub(super) fn new(secrets: Secrets, first: &TrafficKeys) -> Self {
        let key = &first.keys.remote.1.0;
        let limits =
            Limits { confidentiality: key.confidentiality_limit(), integrity: key.integrity_limit() };
        let records = first.records.clone();
        Self { secrets: Arc::new(Mutex::new(secrets)), limits, records, last: None }
    }

    /// Returns the keys of the next phase.
    pub(super) fn next(&mut self) -> KeyPair<Box<dyn crypto::PacketKey>> {
        // Secrets follow from each other, so that phases are derived in order.
        if let Some(last) = &self.last {
            last.keys();
        }
        let phase = Arc::new(KeyPhase { secrets: self.secrets.clone(), keys: OnceLock::new() });
        self.last = Some(phase.clone());

        let limits = self.limits;
        let remote = LaterKey { phase: phase.clone(), select: |keys| &keys.remote, limits };
        let local = LaterKey { phase, select: |keys| &keys.local, limits };
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
    limits: Limits,
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
        self.limits.confidentiality
    }

    fn integrity_limit(&self) -> u64 {
        self.limits.integrity
    }
}

/// A key that records the packets that it opens or seals.
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
            Level::Application => self.records.open_packet(number, payload),
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

/// Protects the headers of one direction.
struct HeaderKey(Box<dyn HeaderProtectionKey>);

impl crypto::HeaderKey for HeaderKey {
    fn decrypt(&self, number_start: usize, packet: &mut [u8]) {
        let opened = HeaderParts::split(number_start, packet)
            .map(|parts| self.0.decrypt_in_place(parts.sample, parts.first, parts.packet_number));
        // A packet that remains protected fails authentication.
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

/// Protects the payloads of one direction.
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
