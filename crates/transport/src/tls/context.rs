//! TLS context shared by all sessions of a server, with its certificates, ticket keys, versions and
//! protocols.
//!
//! A context is created once and then cloned for each worker, with all clones sharing their state. Only
//! certificates and ticket keys may change; sessions read them once, during the handshake. The [QUIC
//! context](crate::quic::Context) is created from a context and shares its certificates and clock.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::credentials::compression;
use crate::credentials::seed::{Seed, StaticSecret};
use crate::credentials::tickets::{Tickets, Transport};
use crate::credentials::validity::unix_seconds;
use crate::{Certificates, Error, Failure, Protocol, Session, Summary, Version, Warning};

/// Settings of a [`Context`].
pub struct Settings {
    /// Certificates and keys of the server.
    pub certificates: Certificates,
    /// Seed of the ticket keys. Processes with the same seed are able to resume each other's sessions,
    /// whereas without any seed, sessions are not resumed.
    pub seed: Option<Seed>,
    /// Enabled versions.
    pub versions: Vec<Version>,
    /// Protocols to be offered by ALPN, in order of preference. For clients that do not use ALPN, callers
    /// should assume HTTP/1.1.
    pub protocols: Vec<Protocol>,
    /// Current time, for ticket keys and OCSP responses.
    pub now: SystemTime,
}

/// Creates sessions. It is cheap to clone.
#[derive(Clone)]
pub struct Context {
    config: Arc<ServerConfig>,
    resolver: Arc<CertificateResolver>,
    tickets: Option<Arc<Tickets>>,
    quic_tickets: Option<Arc<Tickets>>,
    static_secret: StaticSecret,
}

impl Context {
    /// Creates a context.
    ///
    /// # Errors
    /// Returns an error if no version or no protocol is enabled, or if the system's random number generator
    /// fails.
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

        // On first use, the library opens the kernel's counter of restored virtual machines (`/dev/sysgenid`)
        // in order not to repeat random numbers after a restore. Since the sandbox will not allow this later
        // on, it needs to happen now.
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
        // After the handshake, we protect the records ourselves.
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), resolver, tickets, quic_tickets, static_secret })
    }

    /// Creates the configuration for QUIC. While the certificates are the same, QUIC has its own ticket
    /// keys and uses this cryptography (RFC 9001 §4).
    ///
    /// # Errors
    /// Returns an error if `rustls` refuses it.
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

    /// Like `quic_config`, but accepts early data, for which it needs to store sessions.
    ///
    /// # Errors
    /// Returns an error if `rustls` refuses it.
    pub(crate) fn quic_config_with_early_data(
        &self,
        provider: CryptoProvider,
        sessions: Arc<dyn StoresServerSessions>,
    ) -> Result<ServerConfig, Error> {
        let mut config = server_config(provider, &[&rustls::version::TLS13], self.resolver.clone(), None)?;
        config.alpn_protocols = vec![b"h3".to_vec()];
        config.session_storage = sessions;
        // A session can only be resumed once, and browsers sometimes open two connections.
        config.send_tls13_tickets = 2;
        // In QUIC, this means "any". Early data is limited by QUIC's windows instead (RFC 9001 §4.6.1).
        config.max_early_data_size = u32::MAX;
        Ok(config)
    }

    /// Returns the secret that is shared by all processes with the same seed.
    pub(crate) fn static_secret(&self) -> &StaticSecret {
        &self.static_secret
    }

    /// Returns the clock that is set by [`advance`](Self::advance).
    pub(crate) fn clock(&self) -> &Clock {
        &self.resolver.clock
    }

    /// Returns a summary of each certificate in use.
    pub fn certificates(&self) -> Vec<Summary> {
        self.resolver.certificates().summaries()
    }

    /// Creates a session for a new connection.
    ///
    /// # Errors
    /// Returns an error if `rustls` refuses the settings.
    pub fn session(&self) -> Result<Session, Failure> {
        Session::new(self.config.clone())
    }

    /// Replaces the certificates for all future handshakes, without affecting established sessions or
    /// handshakes in progress.
    ///
    /// # Errors
    ///
    /// Returns an error if a new certificate is not valid at `now` while the one that it replaces (from the
    /// same file) is.
    pub fn replace_certificates(&self, certificates: Certificates, now: SystemTime) -> Result<(), Error> {
        self.check_replacement(&certificates, now)?;
        let mut current = self.resolver.certificates.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(certificates);
        compression::forget_messages();
        Ok(())
    }

    /// Checks that certificates could replace those that are served.
    ///
    /// # Errors
    /// Same as for [`Context::replace_certificates`].
    pub fn check_replacement(&self, certificates: &Certificates, now: SystemTime) -> Result<(), Error> {
        certificates.check_replaces(&self.resolver.certificates(), now)
    }

    /// Returns the served certificate that was read from a chain at `path`, without warnings.
    #[must_use]
    pub fn certificate_from(&self, path: &Path) -> Option<Certificates> {
        self.resolver.certificates().of_file(path)
    }

    /// Returns `true` if all of these certificates are served, from the same files and with the same OCSP responses.
    #[must_use]
    pub fn serves(&self, certificates: &Certificates) -> bool {
        certificates.is_part_of(&self.resolver.certificates())
    }

    /// Rotates ticket keys at the end of their period and stops sending OCSP responses that have expired,
    /// for each of which a warning is returned once. This should be called every few seconds and can be
    /// called from any thread.
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
    // A session cache would need a lock, and memory for each session. Tickets do not.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A client can use one ticket for all of its connections, so another one would only add bytes.
    config.send_tls13_tickets = usize::from(tickets.is_some());
    config.max_early_data_size = 0;
    config.cert_compressors = compression::compressors();
    config.cert_compression_cache = compression::disabled_cache();
    if let Some(tickets) = tickets {
        config.ticketer = tickets;
    }
    Ok(config)
}

/// Time of the last [`Context::advance`].
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new(now: SystemTime) -> Self {
        Self(Arc::new(AtomicI64::new(unix_seconds(now))))
    }

    /// Returns the Unix time in seconds.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Selects certificates for `rustls`.
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
