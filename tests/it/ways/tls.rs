//! A TLS client that believes any certificate: the servers of the tests make their own. It does check that the server
//! has the key to it, and it takes a connection that ends without a word (`close_notify`) for a broken one.

use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, aws_lc_rs::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS12;
use rustls::{
    ClientConfig, ClientConnection, DEFAULT_VERSIONS, DigitallySignedStruct, Error, SignatureScheme,
    StreamOwned, SupportedProtocolVersion,
};

/// A secured connection.
pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A connection to `localhost` at this address that offers these protocols of ALPN; the handshake is done.
pub(crate) fn connect(address: &str, protocols: &[&str]) -> Tls {
    let mut config = config(DEFAULT_VERSIONS);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let tls = connect_with(address, "localhost", Arc::new(config));
    if let [only] = protocols {
        assert_eq!(tls.conn.alpn_protocol(), Some(only.as_bytes()));
    }
    tls
}

/// Connects and offers one protocol by ALPN.
///
/// # Errors
/// The server closes or resets the connection during the handshake.
pub(crate) fn try_connect(address: &str, protocol: &str) -> std::io::Result<Tls> {
    let mut config = config(DEFAULT_VERSIONS);
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut tls = StreamOwned::new(connection, super::connect(address));
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    Ok(tls)
}

/// A connection to a server of this name, or address of the network.
pub(crate) fn connect_to(address: &str, name: &str) -> Tls {
    connect_with(address, name, Arc::new(config(DEFAULT_VERSIONS)))
}

/// A connection in TLS 1.2.
pub(crate) fn connect_by_1_2(address: &str) -> Tls {
    connect_with(address, "localhost", Arc::new(config(&[&TLS12])))
}

/// What connections share that go on from one another.
pub(crate) fn resuming() -> Arc<ClientConfig> {
    let mut config = config(DEFAULT_VERSIONS);
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

/// A connection with a configuration of the caller's.
pub(crate) fn connect_with(address: &str, name: &str, config: Arc<ClientConfig>) -> Tls {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut tls = StreamOwned::new(connection, super::connect(address));
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).unwrap_or_else(|error| panic!("no handshake: {error}"));
    }
    tls
}

/// A client that believes anybody, and goes on from no earlier connection.
fn config(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(default_provider())))
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
