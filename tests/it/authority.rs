//! A certification authority of the tests' own, and the certificates that it gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Who gives certificates; nobody has heard of it.
pub(crate) struct Authority {
    own: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate, with its key.
pub(crate) struct Certificate {
    chain: String,
    key: String,
    /// The certificate as it is shown to clients.
    pub(crate) octets: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = called("an authority that nobody knows");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority { own: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// The authority's own certificate, in PEM.
    pub(crate) fn pem(&self) -> String {
        self.own.pem()
    }

    /// A certificate for these names, good for a few hundred days.
    pub(crate) fn certify(&self, names: &[&str]) -> Certificate {
        self.certify_from(names, SystemTime::now())
    }

    /// The same, for 300 days from then on.
    pub(crate) fn certify_from(&self, names: &[&str], start: SystemTime) -> Certificate {
        let called = called(names[0]);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = called;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = start.into();
        params.not_after = params.not_before + 300 * DAY;
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.own).unwrap();
        Certificate { chain: signed.pem(), key: key.serialize_pem(), octets: signed.der().to_vec() }
    }
}

impl Certificate {
    /// Writes certificate and key into one file, in one step.
    pub(crate) fn write_bundle(&self, path: &Path) {
        replace(path, &format!("{}{}", self.chain, self.key));
    }

    /// Writes them into two files.
    pub(crate) fn write_pair(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (public, private) = (folder.join("public.pem"), folder.join("private.pem"));
        replace(&public, &self.chain);
        replace(&private, &self.key);
        (public, private)
    }
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// Puts a file in the place of another, so that nobody reads half of it.
pub(crate) fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}
