//! Self-signed certificates for testing, with a key that is generated in memory at each start.
//!
//! The key is never written to a file, and the program itself does not contain any keys.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

use super::files::Key;
use crate::Error;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Kind of key for a self-signed certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelfSigned {
    /// RSA with 2,048 bits. Every client can verify this.
    Rsa,
    /// ECDSA on P-256, which most sites use.
    Ecdsa,
    /// Ed25519. Libraries support this, but browsers do not.
    Ed25519,
}

impl SelfSigned {
    /// Generates a key and a certificate for `names`, which can be DNS names and addresses. The certificate
    /// will be valid for 398 days (the longest period that all browsers accept), starting a day before `now`.
    pub(super) fn generate(
        self,
        names: &[String],
        now: SystemTime,
    ) -> Result<(CertificateDer<'static>, Key), Error> {
        let failed = |error: rcgen::Error| Error::NotGenerated(error.to_string());
        let key = KeyPair::generate_for(match self {
            Self::Rsa => &PKCS_RSA_SHA256,
            Self::Ecdsa => &PKCS_ECDSA_P256_SHA256,
            Self::Ed25519 => &PKCS_ED25519,
        });
        let mut key = key.map_err(failed)?;

        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "made for trying out");
        params.not_before = (now - DAY).into();
        params.not_after = (now + 397 * DAY).into();
        let certificate = params.self_signed(&key).map_err(failed)?;

        let der = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|error| Error::NotGenerated(error.to_owned()))?;
        key.zeroize();
        Ok((certificate.der().clone(), Key::new(der)))
    }
}
