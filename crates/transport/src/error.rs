//! Errors in certificates, keys or settings, which are reported to the operator.
//!
//! Note that errors must not contain any byte of a key, nor any line of a file that may contain
//! one.

use std::io;
use std::path::PathBuf;

/// Reason why certificates could not be loaded or a context could not be created. Each error names the file
/// and tells the operator how to fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {cause}; the server's user must be able to read it", path.display())]
    #[non_exhaustive]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        cause: io::Error,
    },

    /// The path belongs to a FIFO, a device, a socket or a directory.
    #[error("{}: is not a regular file; put the certificate or key into one", path.display())]
    #[non_exhaustive]
    NotRegular {
        /// The file.
        path: PathBuf,
    },

    /// The file is too long to be a chain and its key.
    #[error("{}: is larger than {limit} bytes, which no certificate chain with its key is", path.display())]
    #[non_exhaustive]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum number of bytes that we read.
        limit: u64,
    },

    /// Every user of the machine can read or change a secret.
    #[error("{}: every user of this machine may read or change it (mode {mode:o}); restrict it: chmod 600 FILE, or 640 for a group", path.display())]
    #[non_exhaustive]
    SecretOfEveryone {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    /// The file of the ticket seed is too short.
    #[error("{}: has {bytes} bytes, and a ticket seed needs 32 or more; generate one: openssl rand -out FILE 64", path.display())]
    #[non_exhaustive]
    ShortTicketSeed {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },

    /// A PEM section cannot be decoded.
    #[error("{}: is damaged: a section has no END line, or is not base64; copy the file again", path.display())]
    #[non_exhaustive]
    Damaged {
        /// The file.
        path: PathBuf,
    },

    /// The file has no CERTIFICATE section.
    #[error("{}: holds no certificate; a line `-----BEGIN CERTIFICATE-----` is expected (PEM)", path.display())]
    #[non_exhaustive]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },

    /// The first certificate cannot be parsed.
    #[error("{}: the first certificate cannot be read ({why}); have it issued again", path.display())]
    #[non_exhaustive]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },

    /// The file has no PRIVATE KEY section.
    #[error("{}: holds no private key; give the file that does, or one file with chain and key", path.display())]
    #[non_exhaustive]
    NoKey {
        /// The file.
        path: PathBuf,
    },

    /// The key is encrypted with a password, but a server has no terminal where it could be entered.
    #[error("{}: the private key is encrypted; remove the password: openssl pkey -in FILE -out FILE", path.display())]
    #[non_exhaustive]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },

    /// The file contains several keys.
    #[error("{}: holds {count} private keys; keep the one that belongs to the first certificate", path.display())]
    #[non_exhaustive]
    ManyKeys {
        /// The file.
        path: PathBuf,
        /// Number of keys in the file.
        count: usize,
    },

    /// The key's algorithm is not supported, or one of its parameters is not.
    #[error(
        "{}: the private key is of a kind that is not supported; use ECDSA (P-256, P-384, P-521), RSA (2048 to \
         8192 bits) or Ed25519",
        path.display()
    )]
    #[non_exhaustive]
    UnsupportedKey {
        /// The file.
        path: PathBuf,
    },

    /// The key does not belong to the first certificate.
    #[error(
        "{}: the private key is not that of the first certificate in {}; the certificate of the site comes \
         first, its issuers after it",
        key.display(),
        certificate.display()
    )]
    #[non_exhaustive]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },

    /// A certificate that clients accept was about to be replaced by one that they would refuse.
    #[error(
        "{}: the new certificate has expired or is not valid yet, and the previous one is still valid",
        path.display()
    )]
    #[non_exhaustive]
    NotValidNow {
        /// The file.
        path: PathBuf,
    },

    /// The file does not contain a successful OCSP response.
    #[error("{}: is no successful OCSP response in DER ({why}); fetch it again: openssl ocsp -respout FILE", path.display())]
    #[non_exhaustive]
    BadStaple {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: &'static str,
    },

    /// The list of sources is empty.
    #[error("there is no certificate; give a file, or use a self-signed certificate for testing")]
    NoSource,

    /// A key or a self-signed certificate could not be generated.
    #[error("a certificate could not be generated: {0}")]
    NotGenerated(String),

    /// The system's random number generator has failed.
    #[error("the system returns no random bytes; without them no connection can be kept secret")]
    NoRandomness,

    /// All versions or all protocols are disabled.
    #[error("no {0} is enabled; enable one")]
    NoneEnabled(&'static str),

    /// `rustls` has refused the settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}
