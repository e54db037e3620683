//! TLS client that accepts any certificate because our test servers sign their own.
//!
//! It does verify that the server has the certificate's key, and reports an error if a connection ends without `close_notify`.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

/// A TLS connection over TCP.
pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Properties of a client. By default, it offers TLS 1.2 and 1.3, no protocol by ALPN, and no resumption.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    versions: Option<&'static SupportedProtocolVersion>,
    protocols: Vec<Vec<u8>>,
    provider: Option<CryptoProvider>,
    schemes: Option<Vec<SignatureScheme>>,
    staple: Arc<Mutex<Vec<u8>>>,
    sessions: usize,
    sends_early_data: bool,
}

impl ClientOptions {
    /// Offers only TLS 1.2.
    #[must_use]
    pub fn tls12(mut self) -> ClientOptions {
        self.versions = Some(&TLS12);
        self
    }

    /// Offers only TLS 1.3.
    #[must_use]
    pub fn tls13(mut self) -> ClientOptions {
        self.versions = Some(&TLS13);
        self
    }

    /// Offers these protocols by ALPN.
    #[must_use]
    pub fn protocols(mut self, protocols: &[&str]) -> ClientOptions {
        self.protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// Offers only the cipher suites and groups of this provider.
    #[must_use]
    pub fn provider(mut self, provider: CryptoProvider) -> ClientOptions {
        self.provider = Some(provider);
        self
    }

    /// Accepts only signatures of these schemes.
    #[must_use]
    pub fn schemes(mut self, schemes: &[SignatureScheme]) -> ClientOptions {
        self.schemes = Some(schemes.to_vec());
        self
    }

    /// Stores the stapled OCSP response of each handshake in `staple`.
    #[must_use]
    pub fn staple(mut self, staple: &Arc<Mutex<Vec<u8>>>) -> ClientOptions {
        self.staple = Arc::clone(staple);
        self
    }

    /// Resumes sessions, of which it stores this number.
    #[must_use]
    pub fn resumption(mut self, sessions: usize) -> ClientOptions {
        self.sessions = sessions;
        self
    }

    /// Sends early data on resumed sessions (0-RTT), if the server permits it.
    #[must_use]
    pub fn early_data(mut self) -> ClientOptions {
        self.sends_early_data = true;
        self
    }

    /// Returns the configuration for rustls.
    #[must_use]
    pub fn build(self) -> ClientConfig {
        let provider = self.provider.map_or_else(default_provider, Arc::new);
        let algorithms = provider.signature_verification_algorithms;
        let schemes = self.schemes.unwrap_or_else(|| algorithms.supported_schemes());
        let verifier = AnyCertificate { algorithms, schemes, staple: self.staple };
        let versions = self.versions.map_or(rustls::DEFAULT_VERSIONS.to_vec(), |version| vec![version]);

        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .expect("the provider has cipher suites for the versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = self.protocols;
        config.enable_early_data = self.sends_early_data;
        config.resumption = match self.sessions {
            0 => Resumption::disabled(),
            sessions => Resumption::in_memory_sessions(sessions),
        };
        config
    }
}

/// Returns the record with the `ClientHello` of a client of the server `name`.
///
/// # Panics
///
/// Panics if `name` is not a server name.
#[must_use]
pub fn client_hello(name: &str, config: ClientConfig) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// Completes the handshake with the server `name` (a DNS name or an address) over a TCP connection.
///
/// # Errors
///
/// Fails if the handshake fails, or if the server closes or resets the connection during it.
///
/// # Panics
///
/// Panics if `name` is not a server name.
pub fn connect(stream: TcpStream, name: &str, config: Arc<ClientConfig>) -> io::Result<TlsStream> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut tls = StreamOwned::new(connection, stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    Ok(tls)
}

/// Returns the same provider for all clients, because it takes longer to make one than to do a handshake.
fn default_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}

/// Accepts any certificate and verifies that the server has its key.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    schemes: Vec<SignatureScheme>,
    /// The OCSP response of the latest handshake.
    staple: Arc<Mutex<Vec<u8>>>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.staple.lock().unwrap() = ocsp_response.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
