//! What all sessions of a server share: certificates, ticket keys, versions and protocols.
//!
//! A context is made once and handed to every worker; copies are the same context. What changes in it, certificates and
//! the keys of tickets, is read once a handshake and never by an established session.

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
use crate::validity::seconds_of;
use crate::{Certificates, Error, Protocol, Session, Summary, Version, Warning};

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
    /// The present, for the keys of tickets and what is stapled.
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
        // The library looks for the kernel's counter of restored virtual machines (`/dev/sysgenid`), with which it never
        // repeats random numbers after a restore, when it is first asked for some: later, a sandbox may keep it from it.
        aws_lc_rs::rand::fill(&mut [0]).map_err(|_| Error::NoRandomness)?;
        let certificates = Arc::new(Chooser {
            certificates: RwLock::new(Arc::new(settings.certificates)),
            now: AtomicI64::new(seconds_of(settings.now)),
        });
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

    /// What the certificates in use are for, and until when they hold.
    pub fn certificates(&self) -> Vec<Summary> {
        self.certificates.all().summaries()
    }

    /// A session for a connection that has just come.
    pub fn session(&self) -> Result<Session, crate::Failure> {
        Session::new(self.config.clone())
    }

    /// Lets all handshakes that begin from now on use other certificates; those under way, and established sessions,
    /// go on with what they have. Refused if one of them is out of its time and the one before, in the same file, is not.
    pub fn replace_certificates(&self, certificates: Certificates, now: SystemTime) -> Result<(), Error> {
        certificates.check_instead_of(&self.certificates.all(), now)?;
        let mut place = self.certificates.certificates.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(certificates);
        Ok(())
    }

    /// Turns the keys of tickets when their period is over, and lets go of OCSP responses that hold no longer, of which it
    /// tells once. To be called every few seconds, by any thread.
    pub fn advance(&self, now: SystemTime) -> Vec<Warning> {
        if let Some(tickets) = &self.tickets {
            tickets.advance(now);
        }
        let now = seconds_of(now);
        let before = self.certificates.now.swap(now, Ordering::Relaxed);
        self.certificates.all().staples_expired(before, now)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// Hands `rustls` the certificate for each client.
#[derive(Debug)]
struct Chooser {
    certificates: RwLock<Arc<Certificates>>,
    /// The present as it was told last, in seconds since 1970.
    now: AtomicI64,
}

impl Chooser {
    fn all(&self) -> Arc<Certificates> {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.all().choose(&hello, self.now.load(Ordering::Relaxed))
    }
}
