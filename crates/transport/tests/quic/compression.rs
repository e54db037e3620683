//! Compressed certificates: a server may send three times as many bytes as it has received before the client has
//! proved its address (RFC 9000 §8.1), and must wait for a round trip if its certificates don't fit.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cannery_testkit::tls::ClientOptions;
use cannery_transport::quic::{Context, EarlyData};
use cannery_transport::{Certificates, Protocol, SelfSigned, Settings, Version};
use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::crypto::aws_lc_rs;

use super::decompressor::Counted;
use super::network::{Network, Server, client_config};

/// Returns the context of a server whose certificate has this many names.
fn context(kind: SelfSigned, names: usize) -> Context {
    let now = SystemTime::now();
    let names: Vec<_> = (0..names).map(|number| format!("customer-{number}.example.com")).collect();
    let tls = cannery_transport::Context::new(Settings {
        certificates: Certificates::self_signed(kind, &names, now).unwrap(),
        seed: None,
        versions: vec![Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    });
    Context::new(&tls.unwrap(), None, EarlyData::Refused).unwrap()
}

/// Returns a client whose hello has one datagram.
fn client() -> ClientOptions {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    ClientOptions::default().tls13().protocols(&["h3"]).provider(provider)
}

/// Returns the duration of a handshake with a large certificate.
fn handshake(decompressor: Option<&'static Counted>) -> Duration {
    let mut config = client().build();
    config.cert_decompressors = decompressor.into_iter().map(|counted| counted as _).collect();

    let mut network = Network::new(Server::new(&context(SelfSigned::Rsa, 120)));
    let handle = network.connect(client_config(&Arc::new(config)));
    let started = network.now;
    let mut established: Option<Instant> = None;
    network.run_with(Duration::from_secs(1), |network| {
        if established.is_none() && network.remote(handle).is_established() {
            established = Some(network.now);
        }
    });
    established.unwrap() - started
}

#[test]
fn compressed_certificate_saves_a_round_trip() {
    let decompressor = Counted::new(Algorithm::Brotli);
    let compressed = handshake(Some(decompressor));
    let whole = handshake(None);
    assert_eq!(decompressor.messages(), 1);
    assert_eq!(whole - compressed, Duration::from_millis(20), "a round trip of the network");
}

#[test]
fn flight_of_several_datagrams_is_sent_at_once() {
    // The client's hello is followed by padding, which counts as received.
    let mut network = Network::new(Server::new(&context(SelfSigned::Rsa, 40)));
    network.connect(client_config(&Arc::new(client().build())));
    network.run(Duration::from_millis(15));
    let sent: Vec<_> = network.sent.iter().filter(|packet| !packet.is_for_server()).collect();
    let bytes: usize = sent.iter().map(|packet| packet.bytes.len()).sum();
    assert!(sent.len() >= 2 && bytes <= 3 * 1200, "{bytes} bytes in {} datagrams", sent.len());
}
