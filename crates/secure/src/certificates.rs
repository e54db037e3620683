//! Chains with their keys, loaded and checked, and the choice among them by what a client asks for.
//!
//! Never shows a key: what this prints for debugging are names. A set of certificates does not change; a new one
//! takes its place as a whole.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, InconsistentKeys, SignatureAlgorithm};
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::files::{self, Key};
use crate::names::Names;
use crate::validity::Validity;
use crate::{Error, SelfSigned};

/// Where a chain and its key come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The chain in PEM, the site's certificate first.
    pub chain: PathBuf,
    /// The private key in PEM; none where it is in the file of the chain.
    pub key: Option<PathBuf>,
    /// An OCSP response in DER to be handed to clients that ask for one (RFC 6066 §8).
    pub staple: Option<PathBuf>,
}

/// Something about a certificate that does not keep it from being used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Clients will refuse it: it holds no longer.
    Expired(PathBuf),
    /// Clients will refuse it: it does not hold yet.
    NotYetValid(PathBuf),
    /// It has no DNS name, so that it answers only for clients that name none.
    Nameless(PathBuf),
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
            Self::Expired(path) => {
                (path, "the certificate has expired, and clients will refuse it; renew it")
            }
            Self::NotYetValid(path) => (path, "the certificate does not hold yet; is the clock right?"),
            Self::Nameless(path) => (path, "the certificate names no host (no DNS name in subjectAltName)"),
        };
        write!(formatter, "{}: {what}", path.display())
    }
}

/// All certificates of a server. The first is shown to clients that name no host, or one that no certificate has.
pub struct Certificates {
    /// Never empty.
    all: Vec<Arc<CertifiedKey>>,
    names: Names,
    warnings: Vec<Warning>,
}

impl Certificates {
    /// Reads and checks all of `sources`; `now` is what tells whether they have expired.
    pub fn load(sources: &[Source], now: SystemTime) -> Result<Self, Error> {
        if sources.is_empty() {
            return Err(Error::Nothing);
        }
        let mut certificates = Self::empty();
        for source in sources {
            let mut sections = files::sections(&source.chain)?;
            if sections.chain.is_empty() {
                return Err(Error::NoCertificate { path: source.chain.clone() });
            }
            let (key_path, key) = match &source.key {
                None => (&source.chain, the_key(&source.chain, &mut sections)?),
                Some(path) => (path, the_key(path, &mut files::sections(path)?)?),
            };
            let mut certified = certify(&source.chain, sections.chain, key_path, &key)?;
            certified.ocsp = source.staple.as_deref().map(files::staple).transpose()?;
            certificates.add(certified, &source.chain, now)?;
        }
        Ok(certificates)
    }

    /// Makes a key and a certificate for `names` in memory.
    pub fn self_signed(kind: SelfSigned, names: &[String], now: SystemTime) -> Result<Self, Error> {
        let (certificate, key) = kind.make(names, now)?;
        let memory = Path::new("(made in memory)");
        let mut certificates = Self::empty();
        certificates.add(certify(memory, vec![certificate], memory, &key)?, memory, now)?;
        Ok(certificates)
    }

    /// Both: those of `self` come first.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        let before = self.all.len();
        self.all.extend(others.all);
        self.names.append(others.names, before);
        self.warnings.extend(others.warnings);
        self
    }

    /// What the operator should know, though all of them can be used.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn empty() -> Self {
        Self { all: Vec::new(), names: Names::default(), warnings: Vec::new() }
    }

    fn add(&mut self, certified: CertifiedKey, path: &Path, now: SystemTime) -> Result<(), Error> {
        let bad = |why: String| Error::BadCertificate { path: path.to_owned(), why };
        let first = certified.end_entity_cert().map_err(|error| bad(error.to_string()))?;
        match Validity::of(first).ok_or_else(|| bad("it has no dates".to_owned()))?.at(now) {
            std::cmp::Ordering::Less => self.warnings.push(Warning::NotYetValid(path.to_owned())),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.warnings.push(Warning::Expired(path.to_owned())),
        }
        let parsed = EndEntityCert::try_from(first).map_err(|error| bad(format!("{error:?}")))?;
        let mut is_nameless = true;
        for name in parsed.valid_dns_names() {
            self.names.add(name, self.all.len());
            is_nameless = false;
        }
        if is_nameless {
            self.warnings.push(Warning::Nameless(path.to_owned()));
        }
        self.all.push(Arc::new(certified));
        Ok(())
    }

    /// The certificate for a client: of those with its name, the first that it can verify, where such with a key that
    /// signs fast come before RSA. If it can verify none, the handshake shall fail for that reason and not for lack of
    /// a certificate, so the first is given then.
    pub(crate) fn choose(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let places = hello.server_name().map_or(&[][..], |name| self.names.find(name));
        let mut named = places.iter().filter_map(|&place| self.all.get(place));
        let first = named.clone().next().or(self.all.first())?;
        let is_rsa = |certified: &CertifiedKey| certified.key.algorithm() == SignatureAlgorithm::RSA;
        let can_use = |certified: &&Arc<CertifiedKey>| can_verify(hello, certified);
        let fast = named.clone().find(|certified| !is_rsa(certified) && can_use(certified));
        Some(fast.or_else(|| named.find(can_use)).unwrap_or(first).clone())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificates").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

/// Whether a client can verify a signature by this key, and has a suite for it.
fn can_verify(hello: &ClientHello<'_>, certified: &CertifiedKey) -> bool {
    let is_rsa = certified.key.algorithm() == SignatureAlgorithm::RSA;
    let suits = |suite: &CipherSuite| match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => true,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => is_rsa,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => !is_rsa,
        _ => false,
    };
    certified.key.choose_scheme(hello.signature_schemes()).is_some()
        && hello.cipher_suites().iter().any(suits)
}

/// The one key of a file.
fn the_key(path: &Path, sections: &mut files::Sections) -> Result<Key, Error> {
    let path = path.to_owned();
    match (sections.keys.len(), sections.has_encrypted_key) {
        (0, true) => Err(Error::EncryptedKey { path }),
        (0 | 1, _) => sections.keys.pop().ok_or(Error::NoKey { path }),
        (count, _) => Err(Error::ManyKeys { path, count }),
    }
}

/// Puts a chain and a key together, if they belong together.
fn certify(
    chain_path: &Path,
    chain: Vec<CertificateDer<'static>>,
    key_path: &Path,
    key: &Key,
) -> Result<CertifiedKey, Error> {
    let signing =
        any_supported_type(key.der()).map_err(|_| Error::UnsupportedKey { path: key_path.to_owned() })?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(Error::KeyMismatch { certificate: chain_path.to_owned(), key: key_path.to_owned() })
        }
        Err(error) => Err(Error::BadCertificate { path: chain_path.to_owned(), why: error.to_string() }),
    }
}
