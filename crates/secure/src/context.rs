//! TLS context: certificates, ticket keys, versions and protocols that all sessions of a server share.
//!
//! A context is built once and cloned for every worker; clones share their state. Only certificates and ticket keys change.
//! A session reads them once, during its handshake. The [context of QUIC](crate::quic::Context) is made from it, and shares
//! its certificates and its clock.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::seed::{Seed, StaticSecret};
use crate::tickets::{Tickets, Transport};
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
    quic_tickets: Option<Arc<Tickets>>,
    static_secret: StaticSecret,
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
            clock: Clock::new(settings.now),
        });
        let tickets_for = |transport| {
            let seed = settings.seed.clone()?;
            Some(Arc::new(Tickets::new(seed, transport, settings.now)))
        };
        let (tickets, quic_tickets) = (tickets_for(Transport::Tcp), tickets_for(Transport::Quic));
        let static_secret = match &settings.seed {
            Some(seed) => seed.static_secret().clone(),
            None => StaticSecret::generate()?,
        };

        let mut config = server_config(default_provider(), &versions, resolver.clone(), tickets.clone())?;
        config.alpn_protocols =
            settings.protocols.iter().flat_map(|protocol| protocol.alpn_names()).collect();
        // We protect the records after the handshake.
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), resolver, tickets, quic_tickets, static_secret })
    }

    /// Returns the configuration for QUIC with the same certificates, its own ticket keys and this cryptography (RFC 9001 §4).
    ///
    /// # Errors
    /// `rustls` refuses it.
    pub(crate) fn quic_config(&self, provider: CryptoProvider) -> Result<ServerConfig, Error> {
        let mut config = server_config(
            provider,
            &[&rustls::version::TLS13],
            self.resolver.clone(),
            self.quic_tickets.clone(),
        )?;
        config.alpn_protocols = vec![b"h3".to_vec()];
        Ok(config)
    }

    /// Returns the same configuration for a server that accepts early data. It stores its sessions.
    ///
    /// # Errors
    /// `rustls` refuses it.
    pub(crate) fn quic_config_with_early_data(
        &self,
        provider: CryptoProvider,
        sessions: Arc<dyn StoresServerSessions>,
    ) -> Result<ServerConfig, Error> {
        let mut config = server_config(provider, &[&rustls::version::TLS13], self.resolver.clone(), None)?;
        config.alpn_protocols = vec![b"h3".to_vec()];
        config.session_storage = sessions;
        // A session is resumed once, and browsers open two connections at times.
        config.send_tls13_tickets = 2;
        // In QUIC this means "any": its windows limit early data too (RFC 9001 §4.6.1).
        config.max_early_data_size = u32::MAX;
        Ok(config)
    }

    /// Returns the secret that all processes with the same seed have.
    pub(crate) fn static_secret(&self) -> &StaticSecret {
        &self.static_secret
    }

    /// Returns the clock that [`advance`](Self::advance) sets.
    pub(crate) fn clock(&self) -> &Clock {
        &self.resolver.clock
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
        for tickets in [&self.tickets, &self.quic_tickets].into_iter().flatten() {
            tickets.advance(now);
        }
        let now = unix_seconds(now);
        let before = self.resolver.clock.0.swap(now, Ordering::Relaxed);
        self.resolver.certificates().staples_expired_between(before, now)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("certificates", &self.resolver).finish_non_exhaustive()
    }
}

/// Returns the settings that TLS over TCP and QUIC have in common.
fn server_config(
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
    resolver: Arc<CertificateResolver>,
    tickets: Option<Arc<Tickets>>,
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .map_err(|error| Error::Setup(error.to_string()))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    // A session cache would need a lock, and memory for each session; tickets need neither.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // One ticket serves all the connections that a client opens, so a second one would only add bytes.
    config.send_tls13_tickets = usize::from(tickets.is_some());
    config.max_early_data_size = 0;
    if let Some(tickets) = tickets {
        config.ticketer = tickets;
    }
    Ok(config)
}

/// The time of the last [`Context::advance`].
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new(now: SystemTime) -> Self {
        Self(Arc::new(AtomicI64::new(unix_seconds(now))))
    }

    /// Returns the time in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Selects the certificate for each client, on behalf of `rustls`.
#[derive(Debug)]
struct CertificateResolver {
    certificates: RwLock<Arc<Certificates>>,
    clock: Clock,
}

impl CertificateResolver {
    fn certificates(&self) -> Arc<Certificates> {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificates().select(&hello, self.clock.unix_seconds())
    }
}
