//! Address validation tokens and stateless resets, using keys derived from the seed (RFC 9000 §8.1, §10.3).
//!
//! A token proves that a client receives datagrams at its address. While tokens in Retry packets are valid
//! for some seconds, those in NEW_TOKEN frames are for a later connection and should only be used once
//! (`used_tokens.rs`).

// Remembers the tokens that were used.
pub(super) mod used_tokens;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::hmac;
use quinn_proto::TimeSource;
use quinn_proto::crypto::{self, CryptoError};
use zeroize::Zeroizing;

use crate::credentials::seed::StaticSecret;
use crate::tls::context::Clock;

const SECRET_BYTES: usize = 32;

/// Computes the stateless reset token for a connection ID.
pub(super) struct ResetKey(hmac::Key);

impl ResetKey {
    pub(super) fn new(secret: &StaticSecret) -> Self {
        let mut key = Zeroizing::new([0; SECRET_BYTES]);
        secret.derive(b"cannery quic: stateless resets", &mut *key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &*key))
    }
}

impl crypto::HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.copy_from_slice(hmac::sign(&self.0, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        self.0.algorithm().tag_len()
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        hmac::verify(&self.0, data, signature).map_err(|_| CryptoError)
    }
}

/// Derives a key for each token, from the random number at the start.
pub(super) struct TokenKey(Prk);

impl TokenKey {
    pub(super) fn new(secret: &StaticSecret) -> Self {
        let mut key = Zeroizing::new([0; SECRET_BYTES]);
        secret.derive(b"cannery quic: tokens", &mut *key);
        Self(Prk::new_less_safe(HKDF_SHA256, &*key))
    }
}

impl crypto::HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random: &[u8]) -> Box<dyn crypto::AeadKey> {
        let mut key = Zeroizing::new([0; SECRET_BYTES]);
        let info = [random];
        let derived = self.0.expand(&info, HKDF_SHA256).and_then(|derived| derived.fill(&mut *key));
        derived.expect("the length of a hash is requested");
        let key = UnboundKey::new(&AES_256_GCM, &*key).expect("the key has the algorithm's length");
        Box::new(OneTokenKey(LessSafeKey::new(key)))
    }
}

/// Encrypts a single token and decrypts it later.
struct OneTokenKey(LessSafeKey);

impl OneTokenKey {
    /// Returns the nonce. It can always be the same because each key only encrypts once.
    fn nonce() -> Nonce {
        Nonce::assume_unique_for_key([0; NONCE_LEN])
    }
}

impl crypto::AeadKey for OneTokenKey {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let sealed = self.0.seal_in_place_append_tag(Self::nonce(), Aad::from(additional_data), data);
        sealed.map_err(|_| CryptoError)
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        self.0.open_in_place(Self::nonce(), Aad::from(additional_data), data).map_err(|_| CryptoError)
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(u64::try_from(self.unix_seconds()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
