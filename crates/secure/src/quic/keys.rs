//! Keys of packets and headers, which `rustls` derives (RFC 9001 §5).
//!
//! `rustls` also protects packets in place. A key costs two virtual calls per packet, one for each library: its secret can't
//! be taken out of `rustls`, so a key of our own could not replace it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, KeyPair, Keys};
use quinn_proto::{ConnectionId, Side};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Suite, Version};

/// The length of the tag of every AEAD in TLS 1.3.
pub(super) const TAG_BYTES: usize = 16;

/// The bytes from the start of the packet number to the sample of header protection (RFC 9001 §5.4.2).
const PACKET_NUMBER_BYTES_MAX: usize = 4;

/// Derives the keys of Initial packets from the client's first connection ID (RFC 9001 §5.2), and remembers the last.
///
/// `quinn-proto` requests them twice per connection: to open the first packet, and for the connection. One endpoint uses
/// this, so its lock is always free.
pub(super) struct InitialKeys {
    suite: Suite,
    last: Mutex<Option<(ConnectionId, ProtectionKeys)>>,
}

impl InitialKeys {
    pub(super) fn new(suite: Suite) -> Self {
        Self { suite, last: Mutex::new(None) }
    }

    /// Returns the server's keys for a connection that the client started with this ID.
    pub(super) fn of(&self, id: &ConnectionId) -> Keys {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last_id, keys)) = &*last
            && last_id == id
        {
            return keys.clone().into();
        }
        let keys = ProtectionKeys::from(self.suite.keys(id, rustls::Side::Server, Version::V1));
        *last = Some((*id, keys.clone()));
        keys.into()
    }

    /// Returns the keys of either side.
    pub(super) fn for_side(&self, id: &ConnectionId, side: Side) -> Keys {
        let Keys { header, packet } = self.of(id);
        match side {
            Side::Server => Keys { header, packet },
            Side::Client => Keys {
                header: KeyPair { local: header.remote, remote: header.local },
                packet: KeyPair { local: packet.remote, remote: packet.local },
            },
        }
    }
}

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

/// The parts of a packet that header protection reads and changes.
struct HeaderParts<'a> {
    first: &'a mut u8,
    packet_number: &'a mut [u8],
    sample: &'a [u8],
}

impl HeaderKey {
    /// Returns the parts of a packet, or `None` if it is too short for a sample. `quinn-proto` passes no such packet.
    fn split<'a>(&self, number_start: usize, packet: &'a mut [u8]) -> Option<HeaderParts<'a>> {
        let (header, rest) = packet.split_at_mut_checked(number_start + PACKET_NUMBER_BYTES_MAX)?;
        let sample = rest.get(..self.0.sample_len())?;
        let (first, header) = header.split_first_mut()?;
        let packet_number = header.get_mut(number_start.checked_sub(1)?..)?;
        Some(HeaderParts { first, packet_number, sample })
    }
}

impl crypto::HeaderKey for HeaderKey {
    fn decrypt(&self, number_start: usize, packet: &mut [u8]) {
        let opened = self
            .split(number_start, packet)
            .map(|parts| self.0.decrypt_in_place(parts.sample, parts.first, parts.packet_number));
        // A packet that remains protected fails authentication.
        debug_assert!(matches!(opened, Some(Ok(()))), "a packet has a sample");
    }

    fn encrypt(&self, number_start: usize, packet: &mut [u8]) {
        let parts = self.split(number_start, packet).expect("packets that we send are padded for a sample");
        let sealed = self.0.encrypt_in_place(parts.sample, parts.first, parts.packet_number);
        sealed.expect("the sample has the key's length");
    }

    fn sample_size(&self) -> usize {
        self.0.sample_len()
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

#[cfg(test)]
mod tests;
