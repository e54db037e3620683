//! TLS context: certificates, ticket keys, versions and protocols that all sessions of a server share.
//!
//! A context is built once and cloned for every worker; clones share their state. Only certificates and ticket keys change.
//! A session reads them once, during its handshake.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::seed::Seed;
use crate::tickets::Tickets;
use crate::validity::unix_seconds;
use crate::{Certificates, Error, Failure, Protocol, Session, Summary, Version, Warning};

/// The settings of a [`Context`].
pub struct Settings {
    /// The server's certificates and keys.
    pub certificates: Certificates,
    /// The seed of the ticket keys. Processes with the same seed resume each other's sessions; without a seed, sessions
    /// are not resumed.
    pub seed: Option<Seed>,
    /// The enabled versions.
    pub versions: Vec<Version>,
    /// The protocols that ALPN offers, in order of preference. The caller treats a client without ALPN as HTTP/1.1.
    pub protocols: Vec<Protocol>,
    /// The current time, for ticket keys and OCSP responses.
    pub now: SystemTime,
}

/// Creates sessions. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    config: Arc<ServerConfig>,
    resolver: Arc<CertificateResolver>,
    tickets: Option<Arc<Tickets>>,
}

impl Context {
    /// Builds a context.
    ///
    /// # Errors
    /// No version or no protocol is enabled, or the system's random number generator fails.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        if settings.protocols.is_empty() {
            return Err(Error::NoneEnabled("protocol"));
        }
        let versions: Vec<&'static SupportedProtocolVersion> =
            [(Version::Tls13, &rustls::version::TLS13), (Version::Tls12, &rustls::version::TLS12)]
                .into_iter()
                .filter_map(|(version, supported)| settings.versions.contains(&version).then_some(supported))
                .collect();
        if versions.is_empty() {
            return Err(Error::NoneEnabled("version of TLS"));
        }

        // On first use the library opens the kernel's counter of restored virtual machines (`/dev/sysgenid`), which keeps it
        // from repeating random numbers after a restore. The sandbox, which is entered later, would prevent that.
        aws_lc_rs::rand::fill(&mut [0]).map_err(|_| Error::NoRandomness)?;

        let resolver = Arc::new(CertificateResolver {
            certificates: RwLock::new(Arc::new(settings.certificates)),
            now: AtomicI64::new(unix_seconds(settings.now)),
        });
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&versions)
            .map_err(|error| Error::Setup(error.to_string()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver.clone());
        config.alpn_protocols =
            settings.protocols.iter().flat_map(|protocol| protocol.alpn_names()).collect();
        // A session cache would need a lock, and memory for each session; tickets need neither.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // One ticket serves all the connections that a client opens, so a second one would only add bytes.
        config.send_tls13_tickets = usize::from(settings.seed.is_some());
        config.max_early_data_size = 0;
        // We protect the records after the handshake.
        config.enable_secret_extraction = true;

        let tickets = settings.seed.map(|seed| Arc::new(Tickets::new(seed, settings.now)));
        if let Some(tickets) = &tickets {
            config.ticketer = tickets.clone();
        }
        Ok(Self { config: Arc::new(config), resolver, tickets })
    }

    /// Returns a summary of each certificate in use.
    pub fn certificates(&self) -> Vec<Summary> {
        self.resolver.certificates().summaries()
    }

    /// Creates the session of a new connection.
    ///
    /// # Errors
    /// `rustls` refuses the settings.
    pub fn session(&self) -> Result<Session, Failure> {
        Session::new(self.config.clone())
    }

    /// Replaces the certificates for all handshakes that begin from now on. Handshakes in progress and established sessions
    /// are not affected.
    ///
    /// # Errors
    /// A new certificate is not valid at `now`, and the one it replaces, in the same file, is.
    pub fn replace_certificates(&self, certificates: Certificates, now: SystemTime) -> Result<(), Error> {
        certificates.check_replaces(&self.resolver.certificates(), now)?;
        let mut current = self.resolver.certificates.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(certificates);
        Ok(())
    }

    /// Rotates ticket keys at the end of their period, and stops sending OCSP responses that have expired. Returns a warning
    /// for each of those, once. Any thread may call this; one should, every few seconds.
    pub fn advance(&self, now: SystemTime) -> Vec<Warning> {
        if let Some(tickets) = &self.tickets {
            tickets.advance(now);
        }
        let now = unix_seconds(now);
        let before = self.resolver.now.swap(now, Ordering::Relaxed);
        self.resolver.certificates().staples_expired_between(before, now)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("certificates", &self.resolver).finish_non_exhaustive()
    }
}

/// Selects the certificate for each client, on behalf of `rustls`.
#[derive(Debug)]
struct CertificateResolver {
    certificates: RwLock<Arc<Certificates>>,
    /// The time of the last [`Context::advance`], in seconds since 1970.
    now: AtomicI64,
}

impl CertificateResolver {
    fn certificates(&self) -> Arc<Certificates> {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificates().select(&hello, self.now.load(Ordering::Relaxed))
    }
}
