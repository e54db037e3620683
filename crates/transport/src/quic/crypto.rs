//! Server cryptography for `quinn-proto`: starts sessions, and seals Retry packets (RFC 9001 §5.8).

// The TLS handshake.
pub(super) mod session;

// Checks a hello before the handshake.
mod client_hello;

// Sessions that can be resumed with early data.
pub(super) mod stored_sessions;

// Keys of Initial packets.
mod initial;

// Keys of all other packets.
mod keys;

// Cipher suites for `rustls`.
pub(super) mod suites;

// AEAD keys that closed connections leave behind for others.
pub(super) mod key_cache;

// Header protection.
mod header;

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quinn_proto::crypto::{self, Keys, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side};
use rustls::ServerConfig;

use self::initial::InitialKeys;
use self::session::Session;
use super::packets::TAG_BYTES;
use super::packets::packet_type::VERSION;
use crate::Error;

// Since the key and nonce of Retry packets are public, the tag can only detect damage, but not
// forgery (RFC 9001 §5.8).
const RETRY_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

/// Starts TLS sessions and derives keys for first packets. Each endpoint has its own.
pub(super) struct ServerCrypto {
    tls: Arc<ServerConfig>,
    initial_keys: Arc<InitialKeys>,
}

impl ServerCrypto {
    /// # Errors
    /// Returns an error if `rustls` does not support QUIC with this configuration.
    pub(super) fn new(tls: Arc<ServerConfig>) -> Result<Self, Error> {
        // `start_session` is not able to report an error. It can only fail because of the configuration,
        // however, so try it here.
        Session::new(tls.clone(), Vec::new(), Arc::default())
            .map_err(|error| Error::Setup(error.to_string()))?;
        Ok(Self { tls, initial_keys: Arc::default() })
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version == VERSION {
            Ok(self.initial_keys.of(id, Side::Server, None))
        } else {
            Err(UnsupportedVersion)
        }
    }

    fn retry_tag(&self, _version: u32, original_id: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        let mut pseudo_packet = Vec::with_capacity(1 + original_id.len() + packet.len());
        pseudo_packet.push(u8::try_from(original_id.len()).expect("a connection ID has at most 20 bytes"));
        pseudo_packet.extend_from_slice(original_id);
        pseudo_packet.extend_from_slice(packet);

        let key = UnboundKey::new(&AES_128_GCM, &RETRY_KEY).expect("the key has the algorithm's length");
        let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
        let sealed =
            LessSafeKey::new(key).seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut []);
        let tag = sealed.expect("a packet is shorter than the algorithm's limit");
        tag.as_ref().try_into().expect("the tag has the algorithm's length")
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let session = Session::new(self.tls.clone(), encoded, self.initial_keys.clone());
        Box::new(session.expect("a session was created with this configuration at startup"))
    }
}

#[cfg(test)]
mod tests;
