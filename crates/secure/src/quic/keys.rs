//! Keys of packets and headers after the Initial ones, which `rustls` derives (RFC 9001 §5).
//!
//! `rustls` also protects packets in place. A key costs two virtual calls per packet, one for each library: its secret can't
//! be taken out of `rustls`, so a key of our own could not replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, KeyPair, Keys};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey};

use super::header::{HeaderParts, SAMPLE_BYTES};
use super::padding::length_without_padding;

/// The length of the tag of every AEAD in TLS 1.3.
pub(super) const TAG_BYTES: usize = 16;

/// The keys of both directions of a packet number space.
#[derive(Clone)]
pub(super) struct ProtectionKeys {
    local: (HeaderKey, PacketKey),
    remote: (HeaderKey, PacketKey),
}

impl From<rustls::quic::Keys> for ProtectionKeys {
    fn from(keys: rustls::quic::Keys) -> Self {
        let wrap = |keys: DirectionalKeys| (HeaderKey(keys.header.into()), PacketKey::new(keys.packet));
        Self { local: wrap(keys.local), remote: wrap(keys.remote) }
    }
}

impl From<ProtectionKeys> for Keys {
    fn from(keys: ProtectionKeys) -> Self {
        let (local, remote) = (keys.local, keys.remote);
        Self {
            header: KeyPair { local: Box::new(local.0), remote: Box::new(remote.0) },
            packet: KeyPair { local: Box::new(local.1), remote: Box::new(remote.1) },
        }
    }
}

/// Protects the packets that carry the rest of the handshake.
///
/// A packet that opens proves that the client has received ours, so its address is validated (RFC 9000 §8.1).
pub(super) struct HandshakeKeys {
    keys: ProtectionKeys,
    has_opened: Arc<AtomicBool>,
}

impl HandshakeKeys {
    /// Creates keys that set `has_opened` with the first packet.
    pub(super) fn new(keys: rustls::quic::Keys, has_opened: Arc<AtomicBool>) -> Self {
        Self { keys: keys.into(), has_opened }
    }
}

impl From<HandshakeKeys> for Keys {
    fn from(HandshakeKeys { keys, has_opened }: HandshakeKeys) -> Self {
        let remote = Box::new(NotifyingKey { key: keys.remote.1.clone(), has_opened });
        let Keys { header, packet } = keys.into();
        Self { header, packet: KeyPair { local: packet.local, remote } }
    }
}

/// A key that records that it has opened a packet.
struct NotifyingKey {
    key: PacketKey,
    has_opened: Arc<AtomicBool>,
}

impl crypto::PacketKey for NotifyingKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        self.key.encrypt(number, packet, header_bytes);
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(number, header, payload)?;
        self.has_opened.store(true, Ordering::Relaxed);
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
#[derive(Clone)]
struct HeaderKey(Arc<dyn HeaderProtectionKey>);

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
#[derive(Clone)]
pub(super) struct PacketKey(Arc<dyn rustls::quic::PacketKey>);

impl PacketKey {
    pub(super) fn new(key: Box<dyn rustls::quic::PacketKey>) -> Self {
        Self(key.into())
    }
}

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
        payload.truncate(length_without_padding(&payload[..bytes]));
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
