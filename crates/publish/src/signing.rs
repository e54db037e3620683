//! Secret keys in minisign's formats.

use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cannery_trust::{PublicKeys, Signed, Statement};
use minisign::{KeyPair, SecretKeyBox};

/// Length of a secret key, and where it has the algorithm that derives the key from a password, and its checksum.
const SECRET_BYTES: usize = 158;
const KDF: Range<usize> = 2..4;
const CHECKSUM: Range<usize> = SECRET_BYTES - 32..SECRET_BYTES;

/// A key that signs.
pub struct SecretKey {
    key: minisign::SecretKey,
}

/// Why a key can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretKeyError {
    /// The text isn't a secret key, or the password is wrong.
    #[error("it isn't a secret key of minisign, or the password is wrong ({0})")]
    Secret(String),
    /// The key has a password, but none was given.
    #[error("the key has a password")]
    Password,
    /// The system has no random numbers, for example.
    #[error("the key can't be used: {0}")]
    Failed(String),
}

impl SecretKey {
    /// Returns whether a key file has a password. A file that isn't one has none.
    #[must_use]
    pub fn has_password(text: &str) -> bool {
        key_bytes(text).is_some_and(|bytes| !bytes[KDF].iter().all(|byte| *byte == 0))
    }

    /// Parses a secret key file of minisign.
    ///
    /// # Errors
    /// Returns [`SecretKeyError`] if it isn't one, or if the password is missing or wrong.
    pub fn parse(text: &str, password: Option<&str>) -> Result<SecretKey, SecretKeyError> {
        let secret = |error: minisign::PError| SecretKeyError::Secret(error.to_string());
        let bytes =
            key_bytes(text).ok_or_else(|| SecretKeyError::Secret("its length is wrong".to_owned()))?;
        // The program `minisign` writes keys without a password without a checksum, too.
        let has_checksum = !bytes[CHECKSUM].iter().all(|byte| *byte == 0);
        let parsed = SecretKeyBox::from_string(text).map_err(secret)?;
        if !SecretKey::has_password(text) {
            let key = if has_checksum {
                parsed.into_unencrypted_secret_key()
            } else {
                minisign::SecretKey::from_bytes(&bytes)
            };
            return Ok(SecretKey { key: key.map_err(secret)? });
        }
        let password = password.ok_or(SecretKeyError::Password)?;
        let key = parsed.into_secret_key(Some(password.to_owned())).map_err(secret)?;
        Ok(SecretKey { key })
    }

    /// Generates a key, and returns the contents of the files with the secret and with the public key.
    ///
    /// # Errors
    /// Returns [`SecretKeyError`] if the system has no random numbers, or not the memory that encryption with a password needs.
    pub fn generate(password: Option<&str>) -> Result<(String, String), SecretKeyError> {
        let failed = |error: minisign::PError| SecretKeyError::Failed(error.to_string());
        let pair = match password {
            Some(password) => KeyPair::generate_encrypted_keypair(Some(password.to_owned())),
            None => KeyPair::generate_unencrypted_keypair(),
        };
        let pair = pair.map_err(failed)?;
        let secret = pair.sk.to_box(Some("cannery secret key")).map_err(failed)?;
        let public = pair.pk.to_box().map_err(failed)?;
        Ok((secret.into_string(), public.into_string()))
    }

    /// Returns the public key.
    ///
    /// # Errors
    /// Returns [`SecretKeyError`] if the secret key is inconsistent.
    pub fn public(&self) -> Result<PublicKeys, SecretKeyError> {
        let key = minisign::PublicKey::from_secret_key(&self.key);
        let failed = |error: String| SecretKeyError::Failed(error);
        let key = key.map_err(|error| failed(error.to_string()))?;
        PublicKeys::parse(&key.to_base64()).map_err(|error| failed(error.to_string()))
    }

    /// Signs a statement.
    ///
    /// # Errors
    /// Returns [`SecretKeyError`] if the system has no random numbers.
    pub fn sign(&self, statement: &Statement) -> Result<Signed, SecretKeyError> {
        let text = statement.to_text();
        let comment =
            format!("{} serial {} sequence {}", statement.site, statement.serial, statement.sequence);
        let signature =
            minisign::sign(None, &self.key, text.as_bytes(), Some(&comment), Some("signed by cannery"))
                .map_err(|error| SecretKeyError::Failed(error.to_string()))?;
        Ok(Signed { statement: text, signature: signature.into_string() })
    }
}

/// Returns the bytes of a secret key file.
fn key_bytes(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    (bytes.len() == SECRET_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use cannery_archive::Digest;
    use cannery_trust::SignatureError;
    use cannery_trust::limits::STATEMENT_BYTES_MAX;

    use super::*;

    fn statement(site: &str) -> Statement {
        let digest = Digest([1; Digest::BYTES]);
        Statement { site: site.into(), serial: 1, sequence: 2, bytes: 3, digest, sha256: [4; 32], date: 5 }
    }

    fn pair() -> (SecretKey, PublicKeys) {
        let (secret, public) = SecretKey::generate(None).unwrap();
        (SecretKey::parse(&secret, None).unwrap(), PublicKeys::parse(&public).unwrap())
    }

    #[test]
    fn only_listed_keys_are_accepted() {
        let ((key, mut public), (other, others)) = (pair(), pair());
        let signed = key.sign(&statement("a")).unwrap();
        assert_eq!(public.verify(&signed), Ok(statement("a")));
        let foreign = other.sign(&statement("a")).unwrap();
        assert_eq!(public.verify(&foreign), Err(SignatureError::Key));
        public.extend(others);
        assert_eq!(public.verify(&foreign), Ok(statement("a")));
        assert_eq!(PublicKeys::default().verify(&signed), Err(SignatureError::Key));
    }

    #[test]
    fn changed_bytes_are_refused() {
        let (key, public) = pair();
        let signed = key.sign(&statement("a")).unwrap();
        let mut other = signed.clone();
        other.statement = other.statement.replace("serial: 1", "serial: 9");
        assert_eq!(public.verify(&other), Err(SignatureError::Wrong));
        // The comment is signed, too.
        let mut other = signed.clone();
        other.signature = other.signature.replace("sequence 2", "sequence 3");
        assert_eq!(public.verify(&other), Err(SignatureError::Wrong));
        for end in 0..signed.signature.len() - 1 {
            let cut = Signed { signature: signed.signature[..end].to_owned(), ..signed.clone() };
            assert!(public.verify(&cut).is_err(), "{end}");
        }
        let long = Signed { statement: "x".repeat(STATEMENT_BYTES_MAX + 1), ..signed };
        assert_eq!(public.verify(&long), Err(SignatureError::Malformed));
    }

    #[test]
    fn texts_that_are_no_keys_are_refused() {
        for text in ["", "untrusted comment: x", "RWQ", "untrusted comment: x\nnot a key\n"] {
            assert!(PublicKeys::parse(text).is_err(), "{text}");
            assert!(SecretKey::parse(text, Some("x")).is_err(), "{text}");
        }
    }
}
