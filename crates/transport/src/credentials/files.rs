//! Reads the files of a certificate: chain and key in PEM, and the OCSP response.
//!
//! Keys should not stay in memory for longer than necessary. For this reason, buffers are zeroed when
//! dropped, and errors do not quote any lines of a file.

use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use libc::O_NONBLOCK;
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::{Zeroize, Zeroizing};

use crate::Error;

/// Maximum length, in bytes, of a file. A chain with its key typically takes a hundredth of this.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A private key in DER. It is zeroed when dropped.
pub(super) struct Key(PrivateKeyDer<'static>);

impl Key {
    pub(super) fn new(der: PrivateKeyDer<'static>) -> Self {
        Self(der)
    }

    pub(super) fn der(&self) -> &PrivateKeyDer<'static> {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The sections of a PEM file that we need.
pub(super) struct PemSections {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) keys: Vec<Key>,
    pub(super) has_encrypted_key: bool,
}

/// Reads a PEM file, ignoring any text between sections and any sections that are neither certificates nor
/// private keys.
pub(super) fn read_pem(path: &Path) -> Result<PemSections, Error> {
    let (text, _) = read(path)?;
    let mut sections =
        PemSections { chain: Vec::new(), keys: Vec::new(), has_encrypted_key: has_encrypted_key(&text) };
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&text) {
        // The reader's error might quote a line, and that might be part of a key.
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

/// Whether a key is encrypted with a password, which is possible in PKCS #8 as well as in the header of
/// older formats (RFC 1421).
fn has_encrypted_key(text: &[u8]) -> bool {
    let contains = |pattern: &[u8]| text.windows(pattern.len()).any(|window| window == pattern);
    contains(b"BEGIN ENCRYPTED PRIVATE KEY") || contains(b"Proc-Type: 4,ENCRYPTED")
}

/// Reads the file of an OCSP response.
pub(super) fn read_staple(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(read(path)?.0.to_vec())
}

/// Reads a file that is not longer than [`FILE_BYTES_MAX`]. The metadata is that of the file that was read.
pub(super) fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, Metadata), Error> {
    let unreadable = |cause| Error::Unreadable { path: path.to_owned(), cause };
    // Opening a FIFO should not wait for the other end. The flag has no effect on regular files.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Error::NotRegular { path: path.to_owned() });
    }

    // Allocate once. A growing vector would leave copies of a key in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned(), limit: FILE_BYTES_MAX });
    }
    Ok((bytes, metadata))
}
