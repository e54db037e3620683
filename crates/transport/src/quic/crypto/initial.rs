//! Keys of Initial packets, which follow from the client's first connection ID (RFC 9001 §5.2).
//!
//! Each key is derived when it is first used. A Retry packet in response to an Initial packet only needs one
//! of the four, and this is most of the work during a flood.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, KeyPair, Keys};
use quinn_proto::{ConnectionId, Side};

use super::header::{HeaderParts, SAMPLE_BYTES, protect, unprotect};
use crate::quic::packets::TAG_BYTES;
use crate::quic::packets::contents::{self, Level};
use crate::quic::packets::records::Records;

/// Salt for version 1. It prevents other versions from opening our packets.
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];

/// Derives the keys of Initial packets and remembers the last ones.
///
/// `quinn-proto` requests them twice per connection, once to open the first packet and then again for
/// the connection. Only one endpoint uses this, so the lock is never contended.
#[derive(Default)]
pub(super) struct InitialKeys(Mutex<Option<(ConnectionId, Arc<Secrets>)>>);

impl InitialKeys {
    /// Derives the keys for our `side` of a connection. `id` is the ID that the client used to start it. If
    /// there are `records`, the other side's packets will be recorded there.
    pub(super) fn of(&self, id: &ConnectionId, side: Side, records: Option<&Arc<Records>>) -> Keys {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = match &*last {
            Some((last_id, secrets)) if last_id == id => secrets.clone(),
            _ => Arc::new(Secrets::new(id)),
        };
        *last = Some((*id, secrets.clone()));

        let key = |sender| InitialKey { secrets: secrets.clone(), sender, records: records.cloned() };
        Keys {
            header: KeyPair { local: Box::new(key(side)), remote: Box::new(key(!side)) },
            packet: KeyPair { local: Box::new(key(side)), remote: Box::new(key(!side)) },
        }
    }
}

/// Secrets of both senders.
struct Secrets {
    initial: Prk,
    client: SenderKeys,
    server: SenderKeys,
}

/// Keys for the packets of one sender.
#[derive(Default)]
struct SenderKeys {
    secret: OnceLock<Prk>,
    header: OnceLock<HeaderProtectionKey>,
    packet: OnceLock<PacketKey>,
}

struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl Secrets {
    fn new(id: &[u8]) -> Self {
        let initial = Salt::new(HKDF_SHA256, &SALT).extract(id);
        Self { initial, client: SenderKeys::default(), server: SenderKeys::default() }
    }

    fn keys(&self, sender: Side) -> &SenderKeys {
        match sender {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    fn secret(&self, sender: Side) -> &Prk {
        self.keys(sender).secret.get_or_init(|| {
            let label: &[u8] = match sender {
                Side::Client => b"client in",
                Side::Server => b"server in",
            };
            Prk::new_less_safe(HKDF_SHA256, &expand_label::<32>(&self.initial, label))
        })
    }

    fn header(&self, sender: Side) -> &HeaderProtectionKey {
        self.keys(sender).header.get_or_init(|| {
            let key = expand_label::<16>(self.secret(sender), b"quic hp");
            HeaderProtectionKey::new(&AES_128, &key).expect("the key has the algorithm's length")
        })
    }

    fn packet(&self, sender: Side) -> &PacketKey {
        self.keys(sender).packet.get_or_init(|| {
            let key = expand_label::<16>(self.secret(sender), b"quic key");
            let key = UnboundKey::new(&AES_128_GCM, &key).expect("the key has the algorithm's length");
            PacketKey { key: LessSafeKey::new(key), iv: expand_label(self.secret(sender), b"quic iv") }
        })
    }
}

impl PacketKey {
    /// Returns the nonce of a packet (RFC 9001 §5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Expands a secret (HKDF-Expand-Label, RFC 8446 §7.1). Everyone can derive these secrets, so they are
/// public.
fn expand_label<const BYTES: usize>(secret: &Prk, label: &[u8]) -> [u8; BYTES] {
    const PREFIX: &[u8] = b"tls13 ";
    let byte = |length| u8::try_from(length).expect("labels and keys are short");
    let info = [&[0, byte(BYTES), byte(PREFIX.len() + label.len())], PREFIX, label, &[0]];
    let mut expanded = [0; BYTES];
    let filled = secret.expand(&info, Length(BYTES)).and_then(|derived| derived.fill(&mut expanded));
    filled.expect("at most the length of a hash is requested");
    expanded
}

/// Length of the HKDF output, as a type that `aws-lc-rs` accepts.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Protects packets of one sender.
struct InitialKey {
    secrets: Arc<Secrets>,
    sender: Side,
    records: Option<Arc<Records>>,
}

impl InitialKey {
    fn mask(&self, sample: &[u8]) -> [u8; 5] {
        self.secrets.header(self.sender).new_mask(sample).expect("the sample has the algorithm's length")
    }
}

impl crypto::HeaderKey for InitialKey {
    fn decrypt(&self, number_start: usize, packet: &mut [u8]) {
        // If it remains protected, the packet will fail authentication.
        let Some(parts) = HeaderParts::split(number_start, packet) else { return };
        unprotect(parts.first, parts.packet_number, self.mask(parts.sample));
    }

    fn encrypt(&self, number_start: usize, packet: &mut [u8]) {
        let parts =
            HeaderParts::split(number_start, packet).expect("packets that we send are padded for a sample");
        protect(parts.first, parts.packet_number, self.mask(parts.sample));
    }

    fn sample_size(&self) -> usize {
        SAMPLE_BYTES
    }
}

impl crypto::PacketKey for InitialKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_bytes: usize) {
        let (header, rest) = packet.split_at_mut(header_bytes);
        let (payload, tag) =
            rest.split_last_chunk_mut::<TAG_BYTES>().expect("a packet that we send has space for its tag");
        let key = self.secrets.packet(self.sender);
        let computed = key.key.seal_in_place_separate_tag(key.nonce(number), Aad::from(header), payload);
        tag.copy_from_slice(computed.expect("a packet is shorter than the algorithm's limit").as_ref());
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let key = self.secrets.packet(self.sender);
        let opened = key.key.open_in_place(key.nonce(number), Aad::from(header), payload);
        let bytes = opened.map_err(|_| CryptoError)?.len();
        payload.truncate(bytes);
        contents::receive(Level::Initial, header, payload, self.records.as_deref());
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        // For AES-128-GCM (RFC 9001 §6.6).
        1 << 23
    }

    fn integrity_limit(&self) -> u64 {
        1 << 52
    }
}

#[cfg(test)]
mod tests;
