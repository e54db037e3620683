//! What all sessions of a server share: certificates, ticket keys, versions and protocols.
//!
//! A context is made once and handed to every worker; copies are the same context. What changes in it, certificates and
//! the keys of tickets, is read once a handshake and never by an established session.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::seed::Seed;
use crate::tickets::Tickets;
use crate::{Certificates, Error, Protocol, Session};

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246, with elliptic curves, authenticated encryption and nothing else.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// What a context is made of.
pub struct Settings {
    /// Whom we can prove to be.
    pub certificates: Certificates,
    /// What ticket keys grow from; processes with the same seed resume each other's sessions. Without, none is resumed.
    pub seed: Option<Seed>,
    /// The versions that are spoken.
    pub versions: Vec<Version>,
    /// The protocols above, the one that is preferred first. A client that asks for none is taken to mean HTTP/1.1.
    pub protocols: Vec<Protocol>,
    /// The present, for the keys of tickets.
    pub now: SystemTime,
}

/// Makes sessions. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    config: Arc<ServerConfig>,
    certificates: Arc<Chooser>,
    tickets: Option<Arc<Tickets>>,
}

impl Context {
    /// Puts the parts together.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        if settings.protocols.is_empty() {
            return Err(Error::NoneLeft("protocol"));
        }
        let versions: Vec<&'static SupportedProtocolVersion> =
            [(Version::Tls13, &rustls::version::TLS13), (Version::Tls12, &rustls::version::TLS12)]
                .into_iter()
                .filter_map(|(version, supported)| settings.versions.contains(&version).then_some(supported))
                .collect();
        if versions.is_empty() {
            return Err(Error::NoneLeft("version of TLS"));
        }
        let certificates = Arc::new(Chooser(RwLock::new(Arc::new(settings.certificates))));
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&versions)
            .map_err(|error| Error::Setup(error.to_string()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(certificates.clone());
        config.alpn_protocols = settings.protocols.iter().flat_map(|protocol| protocol.names()).collect();
        // Sessions that a server remembers would need a lock and memory for each; tickets need neither.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A client opens one connection, or a few that one ticket serves: a second is bytes for nothing.
        config.send_tls13_tickets = usize::from(settings.seed.is_some());
        config.max_early_data_size = 0;
        // Ours is what seals once the handshake is done.
        config.enable_secret_extraction = true;
        let tickets = settings.seed.map(|seed| Arc::new(Tickets::new(seed, settings.now)));
        if let Some(tickets) = &tickets {
            config.ticketer = tickets.clone();
        }
        Ok(Self { config: Arc::new(config), certificates, tickets })
    }

    /// A session for a connection that has just come.
    pub fn session(&self) -> Result<Session, crate::Failure> {
        Session::new(self.config.clone())
    }

    /// Lets all handshakes that begin from now on use other certificates; those under way, and established sessions,
    /// go on with what they have.
    pub fn replace_certificates(&self, certificates: Certificates) {
        *self.certificates.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certificates);
    }

    /// Turns the keys of tickets when their period is over. To be called every few seconds, by any thread.
    pub fn advance(&self, now: SystemTime) {
        if let Some(tickets) = &self.tickets {
            tickets.advance(now);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// Hands `rustls` the certificate for each client.
#[derive(Debug)]
struct Chooser(RwLock<Arc<Certificates>>);

impl ResolvesServerCert for Chooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        certificates.choose(&hello)
    }
}
