//! Cipher suites for QUIC: the TLS 1.3 suites, but with keys that are only expanded when they are used
//! (RFC 9001 §5).

use std::sync::LazyLock;

use aws_lc_rs::aead::quic::{AES_128, AES_256, Algorithm as HeaderAlgorithm, CHACHA20, HeaderProtectionKey};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm as PacketAlgorithm, CHACHA20_POLY1305, LessSafeKey, Nonce,
    UnboundKey,
};
use rustls::crypto::cipher::{self, AeadKey, Iv};
use rustls::crypto::{CryptoProvider, aws_lc_rs::default_provider};
use rustls::quic::{self, Tag};
use rustls::{CipherSuite, CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

use super::header::{SAMPLE_BYTES, protect, unprotect};
use super::key_cache::CachedKey;
use crate::quic::packets::TAG_BYTES;

/// Returns the cryptography of `rustls` with these suites, in the same order.
pub(crate) fn provider() -> CryptoProvider {
    static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
        let suites = default_provider().cipher_suites;
        suites.into_iter().filter_map(|suite| with_cached_keys(suite.tls13()?)).collect()
    });
    let cipher_suites = SUITES.iter().map(SupportedCipherSuite::Tls13).collect();
    CryptoProvider { cipher_suites, ..default_provider() }
}

/// Wraps a suite to expand keys when they are used, or `None` if the suite is unknown.
fn with_cached_keys(suite: &Tls13CipherSuite) -> Option<Tls13CipherSuite> {
    let algorithm: &Algorithm = match suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => &Algorithm::Aes128,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &Algorithm::Aes256,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &Algorithm::ChaCha20,
        _ => return None,
    };
    let CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit } = suite.common;
    Some(Tls13CipherSuite {
        common: CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit },
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: Some(algorithm),
    })
}

/// Algorithms of a suite for packets and headers.
#[derive(Clone, Copy)]
enum Algorithm {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Algorithm {
    fn packet(self) -> &'static PacketAlgorithm {
        match self {
            Self::Aes128 => &AES_128_GCM,
            Self::Aes256 => &AES_256_GCM,
            Self::ChaCha20 => &CHACHA20_POLY1305,
        }
    }

    fn header(self) -> &'static HeaderAlgorithm {
        match self {
            Self::Aes128 => &AES_128,
            Self::Aes256 => &AES_256,
            Self::ChaCha20 => &CHACHA20,
        }
    }

    /// Maximum number of packets that a key may encrypt (RFC 9001 §6.6).
    fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128 | Self::Aes256 => 1 << 23,
            Self::ChaCha20 => u64::MAX,
        }
    }

    /// After this many forged packets, a key must not decrypt any more.
    fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128 | Self::Aes256 => 1 << 52,
            Self::ChaCha20 => 1 << 36,
        }
    }
}

impl quic::Algorithm for Algorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn quic::PacketKey> {
        Box::new(PacketKey { algorithm: *self, key, iv, cached: CachedKey::new() })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn quic::HeaderProtectionKey> {
        Box::new(HeaderKey { algorithm: *self, key, cached: CachedKey::new() })
    }

    fn aead_key_len(&self) -> usize {
        self.packet().key_len()
    }
}

/// Protects payloads in one direction.
struct PacketKey {
    algorithm: Algorithm,
    key: AeadKey,
    iv: Iv,
    cached: CachedKey<LessSafeKey>,
}

impl PacketKey {
    /// Calls `f` with the expanded key and the packet's nonce.
    fn with<R>(&self, number: u64, f: impl FnOnce(&LessSafeKey, Nonce) -> R) -> R {
        let expand = || {
            let key = UnboundKey::new(self.algorithm.packet(), self.key.as_ref());
            LessSafeKey::new(key.expect("the key has the algorithm's length"))
        };
        let nonce = cipher::Nonce::new(&self.iv, number).0;
        self.cached.with(expand, |key| f(key, Nonce::assume_unique_for_key(nonce)))
    }
}

impl quic::PacketKey for PacketKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        self.with(number, |key, nonce| {
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), payload);
            tag.map(|tag| Tag::from(tag.as_ref())).map_err(|_| Error::EncryptError)
        })
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.with(number, |key, nonce| {
            let opened = key.open_in_place(nonce, Aad::from(header), payload);
            opened.map(|opened| &*opened).map_err(|_| Error::DecryptError)
        })
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        self.algorithm.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.algorithm.integrity_limit()
    }
}

/// Protects headers in one direction.
struct HeaderKey {
    algorithm: Algorithm,
    key: AeadKey,
    cached: CachedKey<Box<HeaderProtectionKey>>,
}

impl HeaderKey {
    fn mask(&self, sample: &[u8]) -> Result<[u8; 5], Error> {
        let expand = || {
            let key = HeaderProtectionKey::new(self.algorithm.header(), self.key.as_ref());
            Box::new(key.expect("the key has the algorithm's length"))
        };
        let mask = self.cached.with(expand, |key| key.new_mask(sample));
        mask.map_err(|_| Error::General("the sample has another length".to_owned()))
    }
}

impl quic::HeaderProtectionKey for HeaderKey {
    fn encrypt_in_place(&self, sample: &[u8], first: &mut u8, packet_number: &mut [u8]) -> Result<(), Error> {
        protect(first, packet_number, self.mask(sample)?);
        Ok(())
    }

    fn decrypt_in_place(&self, sample: &[u8], first: &mut u8, packet_number: &mut [u8]) -> Result<(), Error> {
        unprotect(first, packet_number, self.mask(sample)?);
        Ok(())
    }

    fn sample_len(&self) -> usize {
        SAMPLE_BYTES
    }
}

#[cfg(test)]
mod tests;
