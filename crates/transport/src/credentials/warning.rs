//! Defects of certificates that are reported to the operator, but do not prevent the certificates from
//! being used.

use std::fmt;
use std::path::PathBuf;

/// A defect of a certificate or an OCSP response, and the file where we found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The certificate has expired, so clients will refuse it.
    Expired(PathBuf),
    /// The certificate is not valid yet, so clients will refuse it.
    NotYetValid(PathBuf),
    /// The certificate has no DNS names, so it will only be used for clients that do not send one.
    NoDnsName(PathBuf),
    /// A certificate in the chain was not issued by the next one. Some clients will not be able to find a
    /// path to a root.
    ChainOutOfOrder(PathBuf),
    /// The OCSP response is not sent because a newer one is (or should be) available.
    StapleExpired(PathBuf),
    /// The OCSP response is not sent until it becomes valid.
    StapleNotYetValid(PathBuf),
    /// The OCSP response is not sent because it is about another certificate.
    StapleMismatch(PathBuf),
    /// The OCSP response is not sent because the status is not "good".
    StapleNotGood(PathBuf),
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, text) = match self {
            Self::Expired(path) => {
                (path, "the certificate has expired, and clients will refuse it; renew it")
            }
            Self::NotYetValid(path) => (path, "the certificate is not valid yet; is the clock right?"),
            Self::NoDnsName(path) => (path, "the certificate names no host (no DNS name in subjectAltName)"),
            Self::ChainOutOfOrder(path) => (
                path,
                "a certificate of the chain is not issued by the one that follows it; put that of the site first, \
                 and after each the one of its issuer",
            ),

            Self::StapleExpired(path) => {
                (path, "the OCSP response has expired and is not sent to clients; fetch it again")
            }
            Self::StapleNotYetValid(path) => {
                (path, "the OCSP response is not valid yet and is not sent to clients; is the clock right?")
            }
            Self::StapleMismatch(path) => (
                path,
                "the OCSP response is not about the certificate and is not sent to clients; fetch it again",
            ),
            Self::StapleNotGood(path) => (
                path,
                "the OCSP response says that the certificate is revoked or unknown and is not sent to clients; \
                 have another certificate issued",
            ),
        };

        write!(formatter, "{}: {text}", path.display())
    }
}
