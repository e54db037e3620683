//! Certificates with their keys, generated for a test and written to files.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cannery_transport::Source;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256,
};
use tempfile::TempDir;

/// A certificate with its key in PEM, and the certificate in DER.
pub(crate) struct TestCert {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

/// Generates a self-signed certificate that is valid between two times.
pub(crate) fn generate_with(
    algorithm: &'static rcgen::SignatureAlgorithm,
    names: &[&str],
    from: SystemTime,
    to: SystemTime,
) -> TestCert {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    (params.not_before, params.not_after) = (from.into(), to.into());
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().to_vec();
    TestCert { certificate: pem("CERTIFICATE", &der), key: pem("PRIVATE KEY", &key.serialize_der()), der }
}

/// Generates a self-signed ECDSA certificate that is valid now.
pub(crate) fn generate(names: &[&str]) -> TestCert {
    let now = SystemTime::now();
    generate_with(
        &PKCS_ECDSA_P256_SHA256,
        names,
        now - Duration::from_secs(60),
        now + Duration::from_secs(3600),
    )
}

/// Generates a certificate for `names` and that of its issuer.
pub(crate) fn issued(names: &[&str]) -> (TestCert, TestCert) {
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
    let cert = |der: Vec<u8>, key: &KeyPair| TestCert {
        certificate: pem("CERTIFICATE", &der),
        key: pem("PRIVATE KEY", &key.serialize_der()),
        der,
    };
    (cert(der, &key), cert(issuer_der, &issuer_key))
}

/// Encodes a section in PEM.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits =
                three.iter().chain([&0; 2]).take(3).fold(0, |bits, &byte| bits << 8 | usize::from(byte));
            for index in 0..4 {
                let digit = DIGITS[bits >> (18 - 6 * index) & 63];
                text.push(if index <= three.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// Writes a file to a directory.
pub(crate) fn write(directory: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Writes the certificate and its key to one file.
pub(crate) fn bundle(directory: &TempDir, name: &str, cert: &TestCert) -> Source {
    let chain = write(directory, name, format!("a comment\n{}\n{}", cert.key, cert.certificate));
    Source::new(chain)
}
