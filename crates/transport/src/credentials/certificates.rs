//! Certificate chains and their keys: loading and checking them, and selecting a chain that suits
//! the client.
//!
//! A set of certificates is immutable and can only be replaced as a whole. Note that its debug output does
//! not contain any keys.

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

use super::addresses::has_address;
use super::files::{self, Key};
use super::names::NameIndex;
use super::ocsp::{self, CertStatus};
use super::validity::{Validity, unix_seconds};
use crate::{Error, SelfSigned, Warning};

/// Files with a certificate chain and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The chain in PEM. The site's certificate comes first.
    pub chain: PathBuf,
    /// The private key in PEM. `None` if it is in the same file as the chain.
    pub key: Option<PathBuf>,
    /// An OCSP response in DER. It is stapled if a client requests one (RFC 6066 §8).
    pub staple: Option<PathBuf>,
}

impl Source {
    /// Returns a source whose key is in the same file as the chain.
    #[must_use]
    pub fn new(chain: impl Into<PathBuf>) -> Source {
        Source { chain: chain.into(), key: None, staple: None }
    }

    /// Sets the file of the private key.
    #[must_use]
    pub fn with_key(self, key: impl Into<PathBuf>) -> Source {
        Source { key: Some(key.into()), ..self }
    }

    /// Sets the file of an OCSP response.
    #[must_use]
    pub fn with_staple(self, staple: impl Into<PathBuf>) -> Source {
        Source { staple: Some(staple.into()), ..self }
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let Source { chain, key, staple } = self;
        [Some(chain), key.as_ref(), staple.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// All certificates of a server. The first one is the default and will be used if a client does not send a
/// known server name, unless another one is for an IP address and the client sends none at all.
pub struct Certificates {
    /// Never empty once loaded.
    all: Vec<Certificate>,
    names: NameIndex,
    warnings: Vec<Warning>,
}

#[derive(Clone)]
struct Certificate {
    certified: Arc<CertifiedKey>,
    stapled: Option<Stapled>,
    validity: Validity,
    /// Whether clients that connect to an address should get it.
    has_address: bool,
    path: PathBuf,
}

/// The same certificate and key with an OCSP response, which will only be valid for a limited time.
#[derive(Clone)]
struct Stapled {
    certified: Arc<CertifiedKey>,
    validity: Validity,
    path: PathBuf,
}

/// Summary of a certificate, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// File that contains the chain.
    pub path: PathBuf,
    /// First DNS name (may be empty).
    pub name: String,
    /// Start of the validity as Unix time in seconds.
    pub not_before: i64,
    /// Expiry as Unix time in seconds.
    pub not_after: i64,
}

impl Certificates {
    /// Reads and checks all `sources`. A certificate that is not valid at `now` is still loaded, but
    /// with a warning.
    ///
    /// # Errors
    ///
    /// Returns an error if `sources` is empty, or if a file cannot be used.
    pub fn load(sources: &[Source], now: SystemTime) -> Result<Self, Error> {
        if sources.is_empty() {
            return Err(Error::NoSource);
        }

        let mut certificates = Self::empty();
        for source in sources {
            let mut sections = files::read_pem(&source.chain)?;
            if sections.chain.is_empty() {
                return Err(Error::NoCertificate { path: source.chain.clone() });
            }
            let (key_path, key) = match &source.key {
                None => (&source.chain, only_key(&source.chain, &mut sections)?),
                Some(path) => (path, only_key(path, &mut files::read_pem(path)?)?),
            };
            let certified = certify(&source.chain, sections.chain, key_path, &key)?;
            certificates.add(certified, &source.chain, source.staple.as_deref(), now)?;
        }
        Ok(certificates)
    }

    /// Generates a key and a self-signed certificate for `names`, which are only kept in memory.
    ///
    /// # Errors
    /// Returns an error if key generation fails, or if one of `names` is neither a DNS name nor an address.
    pub fn self_signed(kind: SelfSigned, names: &[String], now: SystemTime) -> Result<Self, Error> {
        let (certificate, key) = kind.generate(names, now)?;
        let in_memory = Path::new("(made in memory)");
        let mut certificates = Self::empty();
        certificates.add(certify(in_memory, vec![certificate], in_memory, &key)?, in_memory, None, now)?;
        // It is for any address, and no client trusts it, so one from a file comes first.
        certificates.all[0].has_address = false;
        Ok(certificates)
    }

    /// Appends the certificates of `others`.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        let start = self.all.len();
        self.all.extend(others.all);
        self.names.append(others.names, start);
        self.warnings.extend(others.warnings);
        self
    }

    /// Returns the certificate that was read from `path`, without its warnings.
    pub(crate) fn of_file(&self, path: &Path) -> Option<Self> {
        let certificate = self.all.iter().find(|certificate| certificate.path == path)?.clone();
        let mut one = Self::empty();
        if let Some(parsed) = certificate.parsed() {
            parsed.valid_dns_names().for_each(|name| one.names.add(name, 0));
        }
        one.all.push(certificate);
        Some(one)
    }

    /// Returns `true` if `others` has all of these certificates, from the same files and with the same OCSP responses.
    pub(crate) fn is_part_of(&self, others: &Self) -> bool {
        let staple = |certificate: &Certificate| certificate.stapled.as_ref()?.certified.ocsp.clone();
        let is_same = |one: &Certificate, other: &Certificate| {
            one.path == other.path
                && one.certified.cert == other.certified.cert
                && staple(one) == staple(other)
        };
        self.all.iter().all(|one| others.all.iter().any(|other| is_same(one, other)))
    }

    /// Returns a summary of each certificate.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let summary = |certificate: &Certificate| Summary {
            path: certificate.path.clone(),
            name: certificate.first_name(),
            not_before: certificate.validity.not_before,
            not_after: certificate.validity.not_after,
        };
        self.all.iter().map(summary).collect()
    }

    /// Returns any defects that do not prevent a certificate from being used.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn empty() -> Self {
        Self { all: Vec::new(), names: NameIndex::default(), warnings: Vec::new() }
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

        let validity = Validity::from_certificate(first).ok_or_else(|| bad("it has no dates".to_owned()))?;
        match validity.compare(unix_seconds(now)) {
            Ordering::Less => self.warnings.push(Warning::NotYetValid(path.to_owned())),
            Ordering::Equal => {}
            Ordering::Greater => self.warnings.push(Warning::Expired(path.to_owned())),
        }

        let parsed = EndEntityCert::try_from(first).map_err(|error| bad(format!("{error:?}")))?;
        let has_address = has_address(first);
        let mut has_name = has_address;
        for name in parsed.valid_dns_names() {
            self.names.add(name, self.all.len());
            has_name = true;
        }
        if !has_name {
            self.warnings.push(Warning::NoDnsName(path.to_owned()));
        }

        if !is_in_order(&certified.cert) {
            self.warnings.push(Warning::ChainOutOfOrder(path.to_owned()));
        }

        let stapled = match staple {
            Some(staple) => self.load_staple(staple, &certified, &parsed, now)?,
            None => None,
        };
        self.all.push(Certificate {
            certified: Arc::new(certified),
            stapled,
            validity,
            has_address,
            path: path.to_owned(),
        });
        Ok(())
    }

    /// Reads the OCSP response for a certificate. Adds a warning and returns `None` if clients would not
    /// be able to use it.
    fn load_staple(
        &mut self,
        path: &Path,
        certified: &CertifiedKey,
        parsed: &EndEntityCert<'_>,
        now: SystemTime,
    ) -> Result<Option<Stapled>, Error> {
        let path = path.to_owned();
        let response = files::read_staple(&path)?;
        let status = ocsp::certificate_status(&response, parsed)
            .map_err(|why| Error::BadStaple { path: path.clone(), why })?;
        let validity = match status {
            CertStatus::Good(validity) => validity,
            CertStatus::NotGood => {
                self.warnings.push(Warning::StapleNotGood(path));
                return Ok(None);
            }
            CertStatus::NotIncluded => {
                self.warnings.push(Warning::StapleMismatch(path));
                return Ok(None);
            }
        };

        match validity.compare(unix_seconds(now)) {
            Ordering::Less => self.warnings.push(Warning::StapleNotYetValid(path.clone())),
            Ordering::Equal => {}
            Ordering::Greater => self.warnings.push(Warning::StapleExpired(path.clone())),
        }
        let certified = Arc::new(CertifiedKey { ocsp: Some(response), ..certified.clone() });
        Ok(Some(Stapled { certified, validity, path }))
    }

    /// Warns about each OCSP response that has expired between the Unix times `before` and `now` (in
    /// seconds).
    pub(crate) fn staples_expired_between(&self, before: i64, now: i64) -> Vec<Warning> {
        let stapled = self.all.iter().filter_map(|certificate| certificate.stapled.as_ref());
        stapled
            .filter(|staple| staple.validity.compare(before).is_eq() && staple.validity.compare(now).is_gt())
            .map(|staple| Warning::StapleExpired(staple.path.clone()))
            .collect()
    }

    /// Checks that these certificates can replace `old`.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate is not valid now while the old one in the same file is.
    pub(crate) fn check_replaces(&self, old: &Self, now: SystemTime) -> Result<(), Error> {
        let now = unix_seconds(now);
        let is_regression = |new: &Certificate| {
            let replaced = old.all.iter().find(|old| old.path == new.path);
            !new.validity.compare(now).is_eq()
                && replaced.is_some_and(|replaced| replaced.validity.compare(now).is_eq())
        };
        match self.all.iter().find(|new| is_regression(new)) {
            Some(new) => Err(Error::NotValidNow { path: new.path.clone() }),
            None => Ok(()),
        }
    }

    /// Selects a certificate for a client. `now` is the Unix time in seconds.
    ///
    /// Among the certificates for the server name, this is the first that the client can verify, with a
    /// preference for keys that sign faster than RSA. If the client cannot verify any of them, it gets the
    /// first, so that the handshake fails for that reason rather than for lack of a certificate.
    ///
    /// Clients that connect to an IP address send no server name (RFC 6066 §3), so these get the first certificate for an address.
    pub(crate) fn select(&self, hello: &ClientHello<'_>, now: i64) -> Option<Arc<CertifiedKey>> {
        let positions = hello.server_name().map_or(&[][..], |name| self.names.find(name));
        let mut named = positions.iter().filter_map(|&position| self.all.get(position));
        let nameless = || {
            let of_address = self.all.iter().find(|certificate| certificate.has_address);
            of_address.filter(|_| hello.server_name().is_none()).or(self.all.first())
        };
        let first = named.clone().next().or_else(nameless)?;

        let is_usable = |certificate: &&Certificate| can_verify(hello, &certificate.certified);
        let fast =
            named.clone().find(|certificate| !is_rsa(&certificate.certified) && is_usable(certificate));
        let selected = fast.or_else(|| named.find(is_usable)).unwrap_or(first);

        let stapled = selected.stapled.as_ref().filter(|stapled| stapled.validity.compare(now).is_eq());
        Some(stapled.map_or(&selected.certified, |stapled| &stapled.certified).clone())
    }
}

impl Certificate {
    /// Returns the first DNS name, or an empty string if there is none.
    fn first_name(&self) -> String {
        self.parsed()
            .and_then(|parsed| parsed.valid_dns_names().next().map(str::to_owned))
            .unwrap_or_default()
    }

    fn parsed(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(self.certified.end_entity_cert().ok()?).ok()
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

/// Returns `true` if each certificate of a chain was issued by the next one.
fn is_in_order(chain: &[CertificateDer<'_>]) -> bool {
    let parsed: Vec<_> = chain.iter().filter_map(|der| EndEntityCert::try_from(der).ok()).collect();
    parsed.len() == chain.len() && parsed.windows(2).all(|pair| pair[0].issuer() == pair[1].subject())
}

/// Returns `true` if a client supports both a signature scheme and a cipher suite for this key.
fn can_verify(hello: &ClientHello<'_>, certified: &CertifiedKey) -> bool {
    let is_rsa = is_rsa(certified);
    let supports_key = |suite: &CipherSuite| match suite {
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
        && hello.cipher_suites().iter().any(supports_key)
}

/// Returns the key in a file, which must contain exactly one.
fn only_key(path: &Path, sections: &mut files::PemSections) -> Result<Key, Error> {
    let path = path.to_owned();
    match (sections.keys.len(), sections.has_encrypted_key) {
        (0, true) => Err(Error::EncryptedKey { path }),
        (0 | 1, _) => sections.keys.pop().ok_or(Error::NoKey { path }),
        (count, _) => Err(Error::ManyKeys { path, count }),
    }
}

/// Combines a chain with a key after checking that they belong together.
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
