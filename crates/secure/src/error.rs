//! What is wrong with certificates, keys or settings, told to the operator who has to put it right.
//!
//! Never holds a byte of a key, nor a line of a file that may have one in it.

use std::io;
use std::path::PathBuf;

/// Why there are no certificates, or no context. Each says which file it is about and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {cause}; the server's user must be able to read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },

    /// A FIFO, a device, a socket or a directory has the file's name.
    #[error("{}: is no regular file; put the certificate or key into one", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },

    /// A file is longer than any chain and key.
    #[error("{}: is larger than {limit} bytes, which no certificate chain with its key is", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },

    /// The text between the lines BEGIN and END cannot be read.
    #[error("{}: is damaged: a section has no END line, or is not base64; copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },

    /// No section CERTIFICATE.
    #[error("{}: holds no certificate; a line `-----BEGIN CERTIFICATE-----` is expected (PEM)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },

    /// The first certificate is none that can be read.
    #[error("{}: the first certificate cannot be read ({why}); have it issued again", path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// No section PRIVATE KEY.
    #[error("{}: holds no private key; give the file that does, or one file with chain and key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },

    /// The key is sealed with a password, which there is nobody to type.
    #[error("{}: the private key is encrypted; take the password off: openssl pkey -in FILE -out FILE", path.display())]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },

    /// More keys than one.
    #[error("{}: holds {count} private keys; keep the one that belongs to the first certificate", path.display())]
    ManyKeys {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },

    /// A key of a kind, or with a parameter, that is not taken.
    #[error(
        "{}: the private key is of a kind that is not supported; use ECDSA (P-256, P-384, P-521), RSA (2048 to \
         8192 bits) or Ed25519",
        path.display()
    )]
    UnsupportedKey {
        /// The file.
        path: PathBuf,
    },

    /// Key and first certificate do not belong together.
    #[error(
        "{}: the private key is not that of the first certificate in {}; the certificate of the site comes \
         first, its issuers behind it",
        key.display(),
        certificate.display()
    )]
    KeyMismatch {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },

    /// A certificate that is to take the place of one that clients accept, and that they would refuse.
    #[error("{}: the new certificate has expired or does not hold yet, and the one before still does", path.display())]
    OutOfTime {
        /// The file.
        path: PathBuf,
    },

    /// An OCSP response that no client would take.
    #[error("{}: is no successful OCSP response in DER ({why}); fetch it again: openssl ocsp -respout FILE", path.display())]
    BadStaple {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },

    /// No source of certificates at all.
    #[error("there is no certificate; give a file, or have one made for trying out")]
    Nothing,

    /// A key or certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    NotMade(String),

    /// The system gives no random bytes.
    #[error("the system gives no random bytes; without them no connection can be kept secret")]
    NoRandomness,

    /// Every version or every protocol is switched off.
    #[error("no {0} is left; switch one of them on")]
    NoneLeft(&'static str),

    /// The library refuses what was asked for.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}
