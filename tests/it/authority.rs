//! A certification authority for tests, and the certificates that it issues.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// An authority that no client trusts by default.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate, with its key.
pub(crate) struct Certificate {
    chain: String,
    key: String,
    /// The certificate in DER.
    pub(crate) der: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name("test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Returns the authority's own certificate in PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for these names, valid for 300 days from now.
    pub(crate) fn certify(&self, names: &[&str]) -> Certificate {
        self.certify_from(names, SystemTime::now())
    }

    /// Issues a certificate for these names, valid for 300 days from `start`.
    pub(crate) fn certify_from(&self, names: &[&str], start: SystemTime) -> Certificate {
        let subject = common_name(names[0]);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = subject;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = start.into();
        params.not_after = params.not_before + 300 * DAY;
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Certificate { chain: signed.pem(), key: key.serialize_pem(), der: signed.der().to_vec() }
    }
}

impl Certificate {
    /// Replaces a file by certificate and key.
    pub(crate) fn write_bundle(&self, path: &Path) {
        replace(path, &format!("{}{}", self.chain, self.key));
    }

    /// Writes certificate and key to two files and returns their paths.
    pub(crate) fn write_pair(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let public = folder.join("public.pem");
        let private = folder.join("private.pem");
        replace(&public, &self.chain);
        replace(&private, &self.key);
        (public, private)
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

/// Replaces a file atomically.
pub(crate) fn replace(path: &Path, text: &str) {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, path).unwrap();
}
