//! Self-signed certificates for testing: a key generated in memory at each start.
//!
//! No key is written to a file, and the program contains none.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

use crate::Error;
use crate::files::Key;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The kind of key of a self-signed certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfSigned {
    /// RSA with 2,048 bits, which every client can verify.
    Rsa,
    /// ECDSA on P-256, the most common choice for sites.
    Ecdsa,
    /// Ed25519, which libraries support and browsers don't.
    Ed25519,
}

impl SelfSigned {
    /// Generates a key and a certificate for `names` (DNS names and addresses). The certificate is valid from a day before
    /// `now` for 398 days, the longest period that all browsers accept.
    pub(crate) fn generate(
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
