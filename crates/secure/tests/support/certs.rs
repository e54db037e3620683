//! Certificates with their keys in files, made for a test.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cannery_secure::Source;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256,
};
use tempfile::TempDir;

/// A certificate with its key, in PEM and, of the certificate, in DER.
pub(crate) struct Made {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

pub(crate) fn make_with(
    algorithm: &'static rcgen::SignatureAlgorithm,
    names: &[&str],
    from: SystemTime,
    to: SystemTime,
) -> Made {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    (params.not_before, params.not_after) = (from.into(), to.into());
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().to_vec();
    Made { certificate: pem("CERTIFICATE", &der), key: pem("PRIVATE KEY", &key.serialize_der()), der }
}

pub(crate) fn make(names: &[&str]) -> Made {
    let now = SystemTime::now();
    make_with(&PKCS_ECDSA_P256_SHA256, names, now - Duration::from_secs(60), now + Duration::from_secs(3600))
}

/// A certificate for names, and that of its issuer.
pub(crate) fn issued(names: &[&str]) -> (Made, Made) {
    let issuer_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "an issuer");
    let issuer_der = params.self_signed(&issuer_key).unwrap().der().to_vec();
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&params, &issuer_key);
    let der = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap().der().to_vec();
    let made = |der: Vec<u8>, key: &KeyPair| Made {
        certificate: pem("CERTIFICATE", &der),
        key: pem("PRIVATE KEY", &key.serialize_der()),
        der,
    };
    (made(der, &key), made(issuer_der, &issuer_key))
}

/// A section in PEM.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits =
                three.iter().chain([&0; 2]).take(3).fold(0, |bits, &byte| bits << 8 | usize::from(byte));
            for place in 0..4 {
                let digit = DIGITS[bits >> (18 - 6 * place) & 63];
                text.push(if place <= three.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

pub(crate) fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

pub(crate) fn bundle(folder: &TempDir, name: &str, made: &Made) -> Source {
    let chain = write(folder, name, format!("a remark\n{}\n{}", made.key, made.certificate));
    Source { chain, key: None, staple: None }
}
