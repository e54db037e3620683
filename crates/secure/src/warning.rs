//! Defects of certificates that don't prevent their use, reported to the operator.

use std::fmt;
use std::path::PathBuf;

/// A defect of a certificate or an OCSP response, with the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The certificate has expired: clients refuse it.
    Expired(PathBuf),
    /// The certificate is not valid yet: clients refuse it.
    NotYetValid(PathBuf),
    /// The certificate has no DNS name, so it is used only for clients that send none.
    NoDnsName(PathBuf),
    /// A certificate of the chain is not issued by the next one, so some clients find no path to a root.
    ChainOutOfOrder(PathBuf),
    /// The OCSP response is not sent: a newer one exists or should exist.
    StapleExpired(PathBuf),
    /// The OCSP response is not sent before its validity begins.
    StapleNotYetValid(PathBuf),
    /// The OCSP response is not sent: it is about another certificate.
    StapleMismatch(PathBuf),
    /// The OCSP response is not sent: its status is not "good".
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
