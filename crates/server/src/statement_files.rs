//! The files beside an archive that have the statement about it, and the signature of the statement.

use std::io;
use std::path::{Path, PathBuf};

use cannery_trust::Signed;
use cannery_trust::limits::STATEMENT_BYTES_MAX;

use crate::short_file;

/// Added to the name of an archive, for the statement about it and for the statement's signature.
pub const STATEMENT_SUFFIX: &str = ".release";
pub const SIGNATURE_SUFFIX: &str = ".release.minisig";

/// Returns the path of the file beside an archive with this suffix.
#[must_use]
pub fn beside(archive: &Path, suffix: &str) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Reads the statement about an archive and its signature, which lie beside it. Returns `None` if one is missing.
///
/// # Errors
///
/// Returns an error if one can't be read.
pub fn read_signed(archive: &Path) -> io::Result<Option<Signed>> {
    let Some(statement) = read_text(&beside(archive, STATEMENT_SUFFIX))? else { return Ok(None) };
    let signature = read_text(&beside(archive, SIGNATURE_SUFFIX))?;
    Ok(signature.map(|signature| Signed { statement, signature }))
}

/// Reads a text that is no longer than a statement. Returns `None` if there is no such file.
///
/// # Errors
///
/// Returns an error if the file can't be read, or isn't a text.
pub fn read_text(path: &Path) -> io::Result<Option<String>> {
    match short_file::read(path, STATEMENT_BYTES_MAX as u64) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => String::from_utf8(bytes?)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}
