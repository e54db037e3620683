//! Signed releases of a directory: which keys are accepted, the statements beside archives, and what was accepted last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cannery_archive::Archive;
use cannery_publish::protocol::{Refusal, RefusalKind};
use cannery_server::short_file;
use cannery_trust::limits::STATEMENT_BYTES_MAX;
use cannery_trust::{PublicKeys, Seen, SignatureError, Signed, Statement, TrustError, is_site_name};

use super::release_dir::{SIGNATURE_SUFFIX, STATEMENT_SUFFIX, TEMPORARY_PREFIX};
use crate::flags::signing::TrustFlags;
use crate::output::{Failure, one_line};

/// The file in a release directory that has what was accepted last.
const SEEN: &str = ".seen.json";

/// Start of every public key in base64.
const KEY_START: &str = "RW";

/// The signatures that a release directory demands.
#[derive(Clone)]
pub(super) struct ReleaseTrust {
    keys: PublicKeys,
    site: Option<String>,
}

impl ReleaseTrust {
    /// Reads the keys, or returns `None` if there are none.
    pub(super) fn from_flags(flags: &TrustFlags) -> Result<Option<ReleaseTrust>, Failure> {
        if flags.public_key.is_empty() {
            return Ok(None);
        }
        let mut keys = PublicKeys::default();
        for key in &flags.public_key {
            let (name, text) = if key.starts_with(KEY_START) && !Path::new(key).exists() {
                ("--public-key".to_owned(), key.clone())
            } else {
                let text = fs::read_to_string(key).map_err(|error| {
                    Failure::input(format!("cannot read the public key {}: {error}", one_line(key)))
                        .hint("name a file that `cannery keygen` or `minisign -G` has written, or the line of it that starts with `RW`")
                })?;
                (one_line(key), text)
            };
            keys.extend(PublicKeys::parse(&text).map_err(|error| {
                Failure::input(format!("{name}: {error}"))
                    .hint("the file ends in `.pub`; the one with the secret key isn't needed here")
            })?);
        }
        if let Some(site) = flags.site.as_ref().filter(|site| !is_site_name(site)) {
            return Err(wrong_site_name(site));
        }
        Ok(Some(ReleaseTrust { keys, site: flags.site.clone() }))
    }

    /// The site, if the operator has named it.
    pub(super) fn site(&self) -> Option<&str> {
        self.site.as_deref()
    }

    /// Verifies a statement, and decides whether it is acceptable after what was seen.
    pub(super) fn check(
        &self,
        signed: Option<&Signed>,
        seen: Option<&Seen>,
    ) -> Result<(Statement, Seen), Refusal> {
        let signed = signed.ok_or_else(|| {
            Refusal::new(
                RefusalKind::Request,
                "only signed releases are accepted here, and this one isn't signed",
            )
            .hint("publish with `--secret-key FILE --site NAME`; `cannery keygen` generates a key")
        })?;
        let statement = self.keys.verify(signed).map_err(|error| {
            let refusal = Refusal::new(RefusalKind::Request, error.to_string());
            match error {
                SignatureError::Key => refusal
                    .hint("sign with the key whose public key is listed here, or list the new one with `--public-key`"),
                _ => refusal.hint("sign the release again"),
            }
        })?;
        let seen = Seen::after(seen, self.site(), &statement).map_err(|error| {
            let refusal = Refusal::new(RefusalKind::Request, error.to_string());
            match error {
                TrustError::Site { .. } => {
                    refusal.hint("publish it in the directory of its own site, or sign it for this one")
                }
                _ => refusal.hint("to publish an earlier release, sign it again with a higher sequence, as `cannery rollback` does"),
            }
        })?;
        Ok((statement, seen))
    }
}

pub(super) fn wrong_site_name(site: &str) -> Failure {
    Failure::usage(format!("`{}` is no name of a site", one_line(site)))
        .hint("use printable ASCII letters without spaces, such as the host `example.com`")
}

/// Returns the path of the file beside an archive with this suffix.
pub(super) fn beside(archive: &Path, suffix: &str) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Reads the statement about an archive and its signature, which lie beside it. Returns `None` if there is no statement.
pub(super) fn read_signed(archive: &Path) -> io::Result<Option<Signed>> {
    let Some(statement) = read_short(&beside(archive, STATEMENT_SUFFIX))? else { return Ok(None) };
    let signature = read_short(&beside(archive, SIGNATURE_SUFFIX))?;
    Ok(signature.map(|signature| Signed { statement, signature }))
}

/// Verifies the statement beside an archive, whose digest was verified before.
pub(super) fn verify_archive(
    path: &Path,
    archive: &Archive,
    trust: &ReleaseTrust,
) -> Result<Statement, Failure> {
    let signed = read_signed(path).map_err(|error| {
        Failure::input(format!("cannot read the signature of {}: {error}", path.display()))
    })?;
    let signed = signed.ok_or_else(|| {
        Failure::input(format!(
            "{} is not signed: it has no {}",
            path.display(),
            beside(path, SIGNATURE_SUFFIX).display()
        ))
        .hint("`cannery sign` writes that file")
    })?;
    let (statement, _) = trust.check(Some(&signed), None).map_err(|refusal| {
        let failure = Failure::input(format!("{}: {refusal}", path.display()));
        refusal.hint.into_iter().fold(failure, Failure::hint)
    })?;
    statement.check_all(archive).map_err(|error| {
        Failure::input(format!("{}: {error}", path.display()))
            .hint("sign this archive, or get the one that was signed")
    })?;
    Ok(statement)
}

/// Reads a short file. Returns `None` if there is no such file.
fn read_short(path: &Path) -> io::Result<Option<String>> {
    match short_file::read(path, STATEMENT_BYTES_MAX as u64) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => String::from_utf8(bytes?)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Writes the statement about a release, and its signature.
pub(super) fn write_signed(directory: &Path, name: &str, signed: &Signed) -> io::Result<()> {
    let archive = directory.join(name);
    // The signature comes last: until then, there is none for the new statement.
    replace(&beside(&archive, STATEMENT_SUFFIX), signed.statement.as_bytes())?;
    replace(&beside(&archive, SIGNATURE_SUFFIX), signed.signature.as_bytes())
}

/// Removes what [`write_signed`] has written.
pub(super) fn remove_signed(directory: &Path, name: &str) {
    let archive = directory.join(name);
    for suffix in [STATEMENT_SUFFIX, SIGNATURE_SUFFIX] {
        // Most releases have none.
        let _ = fs::remove_file(beside(&archive, suffix));
    }
}

/// Reads what was accepted last in a release directory.
///
/// # Errors
/// Fails if there is such a file and it can't be read. To go on without it would mean to accept old releases.
pub(super) fn read_seen(directory: &Path) -> io::Result<Option<Seen>> {
    let Some(text) = read_short(&directory.join(SEEN))? else { return Ok(None) };
    let seen = serde_json::from_str(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{SEEN} is damaged: {error}")))?;
    Ok(Some(seen))
}

/// Writes what was accepted last, durably. The caller should hold the lock of the directory.
pub(super) fn write_seen(directory: &Path, seen: &Seen) -> io::Result<()> {
    replace(&directory.join(SEEN), serde_json::to_string(seen)?.as_bytes())?;
    File::open(directory)?.sync_all()
}

/// Replaces a file with a single rename, after its contents are on disk.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("{TEMPORARY_PREFIX}{}-{name}", std::process::id()));
    cannery_publish::replace(path, &temporary, content)
}
