//! A certificate that signs itself, for trying out: a fresh key in memory at every start.
//!
//! Never writes a key anywhere, and never ships one.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

use crate::Error;
use crate::files::Key;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfSigned {
    /// RSA with 2,048 bits: what everybody can verify.
    Rsa,
    /// ECDSA on P-256: what most sites have.
    Ecdsa,
    /// Ed25519: what browsers refuse, and libraries like.
    Ed25519,
}

impl SelfSigned {
    /// Makes a key, and a certificate of it for `names` (DNS names and addresses) that holds from a day before `now`
    /// for a little more than a year, the longest that all browsers take.
    pub(crate) fn make(
        self,
        names: &[String],
        now: SystemTime,
    ) -> Result<(CertificateDer<'static>, Key), Error> {
        let not_made = |error: rcgen::Error| Error::NotMade(error.to_string());
        let key = KeyPair::generate_for(match self {
            Self::Rsa => &PKCS_RSA_SHA256,
            Self::Ecdsa => &PKCS_ECDSA_P256_SHA256,
            Self::Ed25519 => &PKCS_ED25519,
        });
        let mut key = key.map_err(not_made)?;
        let mut params = CertificateParams::new(names).map_err(not_made)?;
        params.distinguished_name.push(DnType::CommonName, "made for trying out");
        params.not_before = (now - DAY).into();
        params.not_after = (now + 397 * DAY).into();
        let certificate = params.self_signed(&key).map_err(not_made)?;
        let der =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| Error::NotMade(why.to_owned()))?;
        key.zeroize();
        Ok((certificate.der().clone(), Key::new(der)))
    }
}
