//! What is wrong with certificates and does not keep them from being used, told to the operator. Never holds a byte of them.

use std::fmt;
use std::path::PathBuf;

/// Something about a certificate that does not keep it from being used, and the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Clients will refuse it: it holds no longer.
    Expired(PathBuf),
    /// Clients will refuse it: it does not hold yet.
    NotYetValid(PathBuf),
    /// It has no DNS name, so that it answers only for clients that name none.
    Nameless(PathBuf),
    /// Of its chain one is not issued by the next, so that some clients find no way to whom they trust.
    Unordered(PathBuf),
    /// The OCSP response is not handed out: there is, or should be, a newer one.
    StapleExpired(PathBuf),
    /// The OCSP response is not handed out before its time.
    StapleNotYetValid(PathBuf),
    /// The OCSP response is not handed out: it is not about this certificate.
    StapleOfAnother(PathBuf),
    /// The OCSP response is not handed out: it does not call the certificate good.
    StapleNotGood(PathBuf),
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
            Self::Expired(path) => {
                (path, "the certificate has expired, and clients will refuse it; renew it")
            }
            Self::NotYetValid(path) => (path, "the certificate does not hold yet; is the clock right?"),
            Self::Nameless(path) => (path, "the certificate names no host (no DNS name in subjectAltName)"),
            Self::Unordered(path) => (
                path,
                "a certificate of the chain is not issued by the one that follows it; put that of the site first, \
                 and behind each the one of its issuer",
            ),
            Self::StapleExpired(path) => {
                (path, "the OCSP response holds no longer, and is not handed out; fetch it again")
            }
            Self::StapleNotYetValid(path) => (
                path,
                "the OCSP response does not hold yet, and is not handed out before; is the clock right?",
            ),
            Self::StapleOfAnother(path) => (
                path,
                "the OCSP response is not about the certificate, and is not handed out; fetch it again",
            ),
            Self::StapleNotGood(path) => (
                path,
                "the OCSP response says that the certificate is revoked or not known, and is not handed out; \
                 have another certificate issued",
            ),
        };
        write!(formatter, "{}: {what}", path.display())
    }
}
