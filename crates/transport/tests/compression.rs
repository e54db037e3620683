//! Tests compressed certificates with `rustls` clients that decompress them, in memory.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;
use std::time::SystemTime;

use cannery_transport::{Certificates, Context, SelfSigned, Settings, Version};
use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::ClientConfig;
use rustls::compress::CertDecompressor;
use support::certs::{bundle, issued};
use support::decompressor::Counted;
use support::{Pair, client_options, context, settings};
use tempfile::TempDir;

fn client(version: Version, decompressors: &[&'static Counted]) -> Arc<ClientConfig> {
    let mut config = client_options(version, &[]).build();
    config.cert_decompressors =
        decompressors.iter().map(|&decompressor| decompressor as &dyn CertDecompressor).collect();
    Arc::new(config)
}

/// Completes a handshake. Returns the length of the server's first flight, and the certificates that the
/// client has received.
fn handshake(context: &Context, config: &Arc<ClientConfig>) -> (usize, Vec<Vec<u8>>) {
    let mut pair = Pair::new(context, config, "localhost");
    pair.flush_client();
    pair.open_in_session().unwrap();
    let flight = pair.to_client.len();
    pair.handshake().unwrap();
    let chain = pair.client.peer_certificates().unwrap();
    (flight, chain.iter().map(|certificate| certificate.to_vec()).collect())
}

#[test]
fn certificates_are_compressed_for_clients_that_can_read_it() {
    for kind in [SelfSigned::Rsa, SelfSigned::Ecdsa] {
        let context = context(settings(kind));
        let (plain_flight, chain) = handshake(&context, &client(Version::Tls13, &[]));
        for algorithm in [Algorithm::Brotli, Algorithm::Zlib] {
            let decompressor = Counted::new(algorithm);
            let config = client(Version::Tls13, &[decompressor]);
            let (flight, received) = handshake(&context, &config);
            assert_eq!(received, chain, "{kind:?} {algorithm:?}");
            assert_eq!(decompressor.messages(), 1, "{kind:?} {algorithm:?}");
            assert!(flight < plain_flight, "{kind:?} {algorithm:?}: {flight} is not below {plain_flight}");
        }
    }
}

#[test]
fn second_handshake_has_the_same_bytes() {
    let context = context(settings(SelfSigned::Rsa));
    let decompressor = Counted::new(Algorithm::Brotli);
    let config = client(Version::Tls13, &[decompressor]);
    handshake(&context, &config);
    let first = decompressor.last.lock().unwrap().clone();
    handshake(&context, &config);
    assert_eq!(decompressor.messages(), 2);
    assert_eq!(*decompressor.last.lock().unwrap(), first);
}

#[test]
fn brotli_is_preferred_to_zlib() {
    let context = context(settings(SelfSigned::Ecdsa));
    let (brotli, zlib) = (Counted::new(Algorithm::Brotli), Counted::new(Algorithm::Zlib));
    handshake(&context, &client(Version::Tls13, &[zlib, brotli]));
    assert_eq!((brotli.messages(), zlib.messages()), (1, 0));
}

#[test]
fn unknown_algorithms_and_older_versions_get_the_certificate_as_it_is() {
    let context = context(settings(SelfSigned::Ecdsa));
    let zstd = Counted::new(Algorithm::Zstd);
    let brotli = Counted::new(Algorithm::Brotli);
    for config in [client(Version::Tls13, &[zstd]), client(Version::Tls12, &[brotli])] {
        let (_, chain) = handshake(&context, &config);
        assert_eq!(chain.len(), 1);
    }
    assert_eq!((zstd.messages(), brotli.messages()), (0, 0));
}

#[test]
fn chain_with_an_issuer_arrives_whole_and_a_replaced_one_too() {
    let directory = TempDir::new().unwrap();
    let now = SystemTime::now();
    let load = |name: &str| {
        let (certificate, issuer) = issued(&["localhost"]);
        let chain = vec![certificate.der.clone(), issuer.der.clone()];
        let whole = support::certs::TestCert {
            certificate: format!("{}{}", certificate.certificate, issuer.certificate),
            ..certificate
        };
        (Certificates::load(&[bundle(&directory, name, &whole)], now).unwrap(), chain)
    };
    let (certificates, chain) = load("site.pem");
    let context = context(Settings { certificates, ..settings(SelfSigned::Ecdsa) });
    let config = client(Version::Tls13, &[Counted::new(Algorithm::Brotli)]);
    assert_eq!(handshake(&context, &config).1, chain);

    let (certificates, chain) = load("site.pem");
    context.replace_certificates(certificates, now).unwrap();
    assert_eq!(handshake(&context, &config).1, chain);
}
