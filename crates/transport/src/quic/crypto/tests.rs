//! Unit tests of Retry packets (with the vector of RFC 9001 §A.4) and of the refusal of other
//! versions.

use quinn_proto::crypto::ServerConfig as _;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::ResolvesServerCertUsingSni;

use super::*;

fn crypto(versions: &[&'static rustls::SupportedProtocolVersion]) -> Result<ServerCrypto, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = builder.with_protocol_versions(versions).unwrap().with_no_client_auth();
    ServerCrypto::new(Arc::new(config.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()))))
}

#[test]
fn retry_tag_is_that_of_the_rfc() {
    let packet = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token";
    let original_id = ConnectionId::new(b"\x83\x94\xc8\xf0\x3e\x51\x57\x08");
    let tag = crypto(&[&rustls::version::TLS13]).unwrap().retry_tag(VERSION, &original_id, packet);
    assert_eq!(tag, *b"\x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba");
}

#[test]
fn other_versions_have_no_keys() {
    let crypto = crypto(&[&rustls::version::TLS13]).unwrap();
    let id = ConnectionId::new(&[0; 8]);
    assert!(crypto.initial_keys(VERSION, &id).is_ok());
    for version in [0, 2, 0x6b33_43cf, 0xff00_001d] {
        assert!(crypto.initial_keys(version, &id).is_err(), "{version:#x}");
    }
}

#[test]
fn configuration_without_tls13_is_refused() {
    assert!(matches!(crypto(&[&rustls::version::TLS12]), Err(Error::Setup(_))));
}
