//! Chains with their keys, loaded and checked, and the choice among them by what a client asks for.
//!
//! Never shows a key: what this prints for debugging are names. A set of certificates does not change; a new one
//! takes its place as a whole.

use std::cmp::Ordering;
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
use crate::ocsp::{self, Said};
use crate::validity::{Validity, seconds_of};
use crate::{Error, SelfSigned, Warning};

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

/// A certificate with its key.
struct Certificate {
    certified: Arc<CertifiedKey>,
    /// The same with an OCSP response, for as long as that holds.
    stapled: Option<Stapled>,
    validity: Validity,
    path: PathBuf,
}

/// A certificate as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The file of its chain.
    pub path: PathBuf,
    /// The first DNS name that it is for; empty if there is none.
    pub name: String,
    /// When it expires, in seconds since 1970.
    pub not_after: i64,
}

struct Stapled {
    certified: Arc<CertifiedKey>,
    validity: Validity,
    path: PathBuf,
}

/// All certificates of a server. The first is shown to clients that name no host, or one that no certificate has.
pub struct Certificates {
    /// Never empty.
    all: Vec<Certificate>,
    names: Names,
    warnings: Vec<Warning>,
}

impl Certificate {
    /// The first DNS name, or nothing.
    fn first_name(&self) -> String {
        let first = self.certified.end_entity_cert().ok().and_then(|der| EndEntityCert::try_from(der).ok());
        first.and_then(|parsed| parsed.valid_dns_names().next().map(str::to_owned)).unwrap_or_default()
    }
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
            let certified = certify(&source.chain, sections.chain, key_path, &key)?;
            certificates.add(certified, &source.chain, source.staple.as_deref(), now)?;
        }
        Ok(certificates)
    }

    /// Makes a key and a certificate for `names` in memory.
    pub fn self_signed(kind: SelfSigned, names: &[String], now: SystemTime) -> Result<Self, Error> {
        let (certificate, key) = kind.make(names, now)?;
        let memory = Path::new("(made in memory)");
        let mut certificates = Self::empty();
        certificates.add(certify(memory, vec![certificate], memory, &key)?, memory, None, now)?;
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

    /// What each certificate is for, and until when it holds.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let summary = |certificate: &Certificate| Summary {
            path: certificate.path.clone(),
            name: certificate.first_name(),
            not_after: certificate.validity.not_after,
        };
        self.all.iter().map(summary).collect()
    }

    /// What the operator should know, though all of them can be used.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn empty() -> Self {
        Self { all: Vec::new(), names: Names::default(), warnings: Vec::new() }
    }

    fn add(
        &mut self,
        certified: CertifiedKey,
        path: &Path,
        staple: Option<&Path>,
        now: SystemTime,
    ) -> Result<(), Error> {
        let bad = |why: String| Error::BadCertificate { path: path.to_owned(), why };
        let first = certified.end_entity_cert().map_err(|error| bad(error.to_string()))?;
        let validity = Validity::of(first).ok_or_else(|| bad("it has no dates".to_owned()))?;
        match validity.at(seconds_of(now)) {
            Ordering::Less => self.warnings.push(Warning::NotYetValid(path.to_owned())),
            Ordering::Equal => {}
            Ordering::Greater => self.warnings.push(Warning::Expired(path.to_owned())),
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
        if !is_in_order(&certified.cert) {
            self.warnings.push(Warning::Unordered(path.to_owned()));
        }
        let stapled = staple.map(|path| self.staple(path, &certified, &parsed, now)).transpose()?.flatten();
        let path = path.to_owned();
        self.all.push(Certificate { certified: Arc::new(certified), stapled, validity, path });
        Ok(())
    }

    /// Reads the OCSP response for a certificate; none if it would help no client.
    fn staple(
        &mut self,
        path: &Path,
        certified: &CertifiedKey,
        parsed: &EndEntityCert<'_>,
        now: SystemTime,
    ) -> Result<Option<Stapled>, Error> {
        let path = path.to_owned();
        let response = files::staple(&path)?;
        let said =
            ocsp::read(&response, parsed).map_err(|why| Error::BadStaple { path: path.clone(), why })?;
        let Said::Good(validity) = said else {
            self.warnings.push(match said {
                Said::NotGood => Warning::StapleNotGood(path),
                _ => Warning::StapleOfAnother(path),
            });
            return Ok(None);
        };
        match validity.at(seconds_of(now)) {
            Ordering::Less => self.warnings.push(Warning::StapleNotYetValid(path.clone())),
            Ordering::Equal => {}
            Ordering::Greater => self.warnings.push(Warning::StapleExpired(path.clone())),
        }
        let certified = Arc::new(CertifiedKey { ocsp: Some(response), ..certified.clone() });
        Ok(Some(Stapled { certified, validity, path }))
    }

    /// The OCSP responses that held at `before` and no longer do `now`, both in seconds since 1970.
    pub(crate) fn staples_expired(&self, before: i64, now: i64) -> Vec<Warning> {
        let stapled = self.all.iter().filter_map(|certificate| certificate.stapled.as_ref());
        stapled
            .filter(|staple| staple.validity.at(before).is_eq() && staple.validity.at(now).is_gt())
            .map(|staple| Warning::StapleExpired(staple.path.clone()))
            .collect()
    }

    /// Refuses to take the place of `others` with a certificate that clients will refuse, where they accept the one
    /// before.
    pub(crate) fn check_instead_of(&self, others: &Self, now: SystemTime) -> Result<(), Error> {
        let now = seconds_of(now);
        let is_worse = |new: &Certificate| {
            let is_before = |old: &&Certificate| old.path == new.path;
            !new.validity.at(now).is_eq()
                && others.all.iter().find(is_before).is_some_and(|old| old.validity.at(now).is_eq())
        };
        match self.all.iter().find(|new| is_worse(new)) {
            Some(new) => Err(Error::OutOfTime { path: new.path.clone() }),
            None => Ok(()),
        }
    }

    /// The certificate for a client: of those with its name, the first that it can verify, where such with a key that
    /// signs fast come before RSA. If it can verify none, the handshake shall fail for that reason and not for lack of
    /// a certificate, so the first is given then.
    pub(crate) fn choose(&self, hello: &ClientHello<'_>, now: i64) -> Option<Arc<CertifiedKey>> {
        let places = hello.server_name().map_or(&[][..], |name| self.names.find(name));
        let mut named = places.iter().filter_map(|&place| self.all.get(place));
        let first = named.clone().next().or(self.all.first())?;
        let can_use = |certificate: &&Certificate| can_verify(hello, &certificate.certified);
        let fast = named.clone().find(|certificate| !is_rsa(&certificate.certified) && can_use(certificate));
        let chosen = fast.or_else(|| named.find(can_use)).unwrap_or(first);
        let stapled = chosen.stapled.as_ref().filter(|stapled| stapled.validity.at(now).is_eq());
        Some(stapled.map_or(&chosen.certified, |stapled| &stapled.certified).clone())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificates").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

fn is_rsa(certified: &CertifiedKey) -> bool {
    certified.key.algorithm() == SignatureAlgorithm::RSA
}

/// Whether each of a chain is issued by the next.
fn is_in_order(chain: &[CertificateDer<'_>]) -> bool {
    let parsed: Vec<_> = chain.iter().filter_map(|one| EndEntityCert::try_from(one).ok()).collect();
    parsed.len() == chain.len() && parsed.windows(2).all(|two| two[0].issuer() == two[1].subject())
}

/// Whether a client can verify a signature by this key, and has a suite for it.
fn can_verify(hello: &ClientHello<'_>, certified: &CertifiedKey) -> bool {
    let is_rsa = is_rsa(certified);
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
