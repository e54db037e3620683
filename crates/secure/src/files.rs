//! The files of a certificate: chain, key and staple, read and taken apart.
//!
//! Never keeps the text of a key: what was read is overwritten when it goes, and errors tell of the file only
//! what is no secret.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use libc::O_NONBLOCK;
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::{Zeroize, Zeroizing};

use crate::Error;

/// The longest file that is read, in bytes: a hundred times a chain with its key.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A private key in DER that is overwritten when it goes.
pub(crate) struct Key(PrivateKeyDer<'static>);

impl Key {
    pub(crate) fn new(der: PrivateKeyDer<'static>) -> Self {
        Self(der)
    }

    pub(crate) fn der(&self) -> &PrivateKeyDer<'static> {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// What the sections of a PEM file hold.
pub(crate) struct Sections {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) keys: Vec<Key>,
    /// A key is there that only its password opens.
    pub(crate) has_encrypted_key: bool,
}

/// Reads a PEM file. Sections that are neither certificate nor private key are passed over, as are texts between.
pub(crate) fn sections(path: &Path) -> Result<Sections, Error> {
    let text = bytes(path)?;
    let mut sections =
        Sections { chain: Vec::new(), keys: Vec::new(), has_encrypted_key: is_encrypted(&text) };
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&text) {
        // The error of the reader may quote the line, which may be one of a key.
        let (kind, der) = section.map_err(|_| Error::Damaged { path: path.to_owned() })?;
        match kind {
            SectionKind::Certificate => sections.chain.push(der.into()),
            SectionKind::PrivateKey => sections.keys.push(Key::new(PrivateKeyDer::Pkcs8(der.into()))),
            SectionKind::RsaPrivateKey => sections.keys.push(Key::new(PrivateKeyDer::Pkcs1(der.into()))),
            SectionKind::EcPrivateKey => sections.keys.push(Key::new(PrivateKeyDer::Sec1(der.into()))),
            _ => {}
        }
    }
    Ok(sections)
}

/// Whether a key is sealed with a password: by PKCS #8, or by the header of the older forms.
fn is_encrypted(text: &[u8]) -> bool {
    let contains = |what: &[u8]| text.windows(what.len()).any(|window| window == what);
    contains(b"BEGIN ENCRYPTED PRIVATE KEY") || contains(b"Proc-Type: 4,ENCRYPTED")
}

/// Reads the file of an OCSP response.
pub(crate) fn staple(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(bytes(path)?.to_vec())
}

/// A whole file, of at most [`FILE_BYTES_MAX`].
fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let unreadable = |cause| Error::Unreadable { path: path.to_owned(), cause };
    // A FIFO under this name must not make the caller wait for its other end. Regular files do not notice the flag.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::NotRegular { path: path.to_owned() });
    }
    // Sized at once: a vector that grows leaves copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned(), limit: FILE_BYTES_MAX });
    }
    Ok(bytes)
}
