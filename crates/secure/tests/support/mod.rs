//! The other end: clients of `rustls` that speak to a session in memory, and the certificates for it.
//!
//! Nothing is played but trust: the client takes any certificate, and verifies that the server has its key.

#![allow(dead_code, reason = "not every test uses everything")]

pub(crate) mod certs;

use std::io::{IoSlice, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use cannery_secure::{
    Certificates, Context, Failure, Opened, Protocol, SelfSigned, Session, Settings, Version,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// All kinds of keys.
pub(crate) const KINDS: [SelfSigned; 3] = [SelfSigned::Rsa, SelfSigned::Ecdsa, SelfSigned::Ed25519];

/// All versions.
pub(crate) const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

/// Settings for one certificate that is made here, without tickets.
pub(crate) fn settings(kind: SelfSigned) -> Settings {
    let now = SystemTime::now();
    Settings {
        certificates: Certificates::self_signed(kind, &["localhost".to_owned()], now)
            .expect("the two can talk"),
        seed: None,
        versions: VERSIONS.to_vec(),
        protocols: vec![Protocol::Http2, Protocol::Http11],
        now,
    }
}

/// A context of these settings.
pub(crate) fn context(settings: Settings) -> Context {
    Context::new(settings).expect("the two can talk")
}

/// What a client is to be like.
pub(crate) fn client_config(version: Version, protocols: &[&str]) -> ClientConfig {
    client_config_of(aws_lc_rs::default_provider(), version, protocols)
}

/// The same, with some suites or groups only.
pub(crate) fn client_config_of(
    provider: CryptoProvider,
    version: Version,
    protocols: &[&str],
) -> ClientConfig {
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    config_of(provider, version, protocols, AnyCertificate::new(schemes))
}

/// A client that can verify only these signatures.
pub(crate) fn client_config_with_schemes(version: Version, schemes: &[SignatureScheme]) -> ClientConfig {
    config_of(aws_lc_rs::default_provider(), version, &[], AnyCertificate::new(schemes.to_vec()))
}

/// A client that asks for an OCSP response, and where it puts that.
pub(crate) fn client_config_that_keeps_staples(version: Version) -> (ClientConfig, Arc<Mutex<Vec<u8>>>) {
    let provider = aws_lc_rs::default_provider();
    let verifier = AnyCertificate::new(provider.signature_verification_algorithms.supported_schemes());
    let staple = verifier.staple.clone();
    (config_of(provider, version, &[], verifier), staple)
}

fn config_of(
    provider: CryptoProvider,
    version: Version,
    protocols: &[&str],
    verifier: AnyCertificate,
) -> ClientConfig {
    let version = match version {
        Version::Tls12 => &rustls::version::TLS12,
        Version::Tls13 => &rustls::version::TLS13,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .expect("the provider has suites for the version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// A client and a session, and what is on the way between them.
pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) session: Session,
    /// On the way to the session.
    pub(crate) to_session: Vec<u8>,
    /// On the way to the client, and not there yet.
    pub(crate) to_client: Vec<u8>,
    /// What the session has opened.
    pub(crate) plain: Vec<u8>,
    /// What it said of the last that was opened.
    pub(crate) opened: Opened,
}

impl Pair {
    pub(crate) fn new(context: &Context, config: &Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).expect("the two can talk");
        Self {
            client: ClientConnection::new(config.clone(), name).expect("the two can talk"),
            session: context.session().expect("the two can talk"),
            to_session: Vec::new(),
            to_client: Vec::new(),
            plain: Vec::new(),
            opened: Opened::default(),
        }
    }

    /// A pair that has shaken hands.
    pub(crate) fn connected(context: &Context, config: &Arc<ClientConfig>) -> Self {
        let mut pair = Self::new(context, config, "localhost");
        pair.shake_hands().expect("the two can talk");
        pair
    }

    /// Lets both talk until neither has anything to say.
    pub(crate) fn shake_hands(&mut self) -> Result<(), Failure> {
        self.shake_hands_in_parts(usize::MAX)
    }

    /// The same, with so many bytes at a time on the way to the session.
    pub(crate) fn shake_hands_in_parts(&mut self, part: usize) -> Result<(), Failure> {
        for _ in 0..10 {
            let before = (self.client.is_handshaking(), self.to_client.len());
            self.client_speaks();
            let sent = std::mem::take(&mut self.to_session);
            for part in sent.chunks(part.min(sent.len().max(1))) {
                self.to_session.extend_from_slice(part);
                self.session_listens()?;
            }
            let heard = self.to_client.len();
            self.client_listens().expect("the two can talk");
            if heard == 0 && !before.0 && !self.client.wants_write() {
                return Ok(());
            }
        }
        panic!("they never come to an end");
    }

    /// What the client has to say is on its way.
    pub(crate) fn client_speaks(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_session).expect("the two can talk");
        }
    }

    /// The session opens what is on its way, and keeps what is no whole record.
    pub(crate) fn session_listens(&mut self) -> Result<(), Failure> {
        let result = self.session.open(&mut self.to_session, &mut self.plain, &mut self.to_client, true);
        self.opened = result?;
        self.to_session.drain(..self.opened.used);
        Ok(())
    }

    /// The client takes what is on its way; returns the plain bytes.
    pub(crate) fn client_listens(&mut self) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::new();
        let sent = std::mem::take(&mut self.to_client);
        let mut sent = sent.as_slice();
        while !sent.is_empty() {
            let taken = self.client.read_tls(&mut sent).expect("memory can be read");
            let state = self.client.process_new_packets()?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.client.reader().read_exact(&mut plain[start..]).expect("so much is there");
            if taken == 0 {
                break;
            }
        }
        Ok(plain)
    }

    /// The client says something, which the session opens.
    pub(crate) fn client_says(&mut self, plain: &[u8]) -> Result<(), Failure> {
        self.client.writer().write_all(plain).expect("the two can talk");
        self.client_speaks();
        self.session_listens()
    }

    /// The session says something, which the client opens.
    pub(crate) fn session_says(&mut self, runs: &[&[u8]]) -> Vec<u8> {
        let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
        self.session.seal(&runs, &mut self.to_client).expect("the two can talk");
        self.client_listens().expect("the two can talk")
    }
}

/// The lengths of the records in `sealed`, heads included.
pub(crate) fn record_lengths(sealed: &[u8]) -> Vec<usize> {
    let (mut lengths, mut rest) = (Vec::new(), sealed);
    while let [_, _, _, high, low, ..] = rest {
        let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
        lengths.push(length);
        rest = &rest[length..];
    }
    lengths
}

/// Takes any certificate, verifies that the server has its key, and keeps the staple.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    schemes: Vec<SignatureScheme>,
    staple: Arc<Mutex<Vec<u8>>>,
}

impl AnyCertificate {
    fn new(schemes: Vec<SignatureScheme>) -> Self {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        Self { algorithms, schemes, staple: Arc::default() }
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        staple: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.staple.lock().expect("no thread failed") = staple.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
