//! Signed releases of a directory: which keys are accepted, the statements beside archives, and what was accepted last.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use cannery_archive::Archive;
use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::protocol::{Refusal, RefusalKind};
use cannery_publish::read_named_text;
use cannery_server::statement_files::{SIGNATURE_SUFFIX, STATEMENT_SUFFIX, beside, read_signed, read_text};
use cannery_trust::{
    Policy, PublicKeys, Seen, SignatureError, Signed, Statement, TrustError, Untrusted, is_site_name,
};

use super::release_dir::replace;
use crate::flags::signing::TrustFlags;
use crate::output::{Failure, one_line};

/// The file in a release directory that has what was accepted last.
const SEEN: &str = ".seen.json";

/// The remedy if that file is damaged.
pub(super) const SEEN_IS_DAMAGED: &str = "restore the file from a backup. If you delete it instead, any signed release is accepted, \
                                           even one that is older than the last";

/// Start of every public key in base64.
const KEY_START: &str = "RW";

/// The signatures that a release directory demands.
#[derive(Clone)]
pub(super) struct ReleaseTrust(Policy);

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
                let text = read_named_text(Path::new(key), NAMED_FILE_BYTES_MAX).map_err(|error| {
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
        Ok(Some(ReleaseTrust(Policy::new(keys, flags.site.clone()))))
    }

    /// The site, if the operator has named it.
    pub(super) fn site(&self) -> Option<&str> {
        self.0.site()
    }

    /// Returns the same for a server.
    pub(super) fn into_policy(self) -> Policy {
        self.0
    }

    /// Verifies a statement, and decides whether it is acceptable after what was seen.
    pub(super) fn check(
        &self,
        signed: Option<&Signed>,
        seen: Option<&Seen>,
    ) -> Result<(Statement, Seen), Refusal> {
        self.0.check(signed, seen).map_err(|error| {
            let refusal = Refusal::new(RefusalKind::Request, error.to_string());
            refusal.hint(match error {
                Untrusted::Unsigned => {
                    "add `--secret-key FILE --site NAME`; `cannery keygen` generates a key"
                }
                Untrusted::Signature(SignatureError::Key) => {
                    "sign with the key whose public key is listed here, or list the new one with `--public-key`"
                }
                Untrusted::Statement(TrustError::Site { .. }) => {
                    "publish it in the directory of its own site, or sign it for this one"
                }
                Untrusted::Statement(_) => {
                    "to publish an earlier release, sign it again with a higher sequence, as `cannery rollback` does"
                }
                _ => "sign the release again",
            })
        })
    }
}

pub(super) fn wrong_site_name(site: &str) -> Failure {
    Failure::usage(format!("`{}` is no name of a site", one_line(site)))
        .hint("use printable ASCII letters without spaces, such as the host `example.com`")
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
    let (statement, _) = trust
        .check(Some(&signed), None)
        .map_err(|refusal| Failure::input(format!("{}: {refusal}", path.display())).hint_if(refusal.hint))?;
    statement.check_all(archive).map_err(|error| {
        Failure::input(format!("{}: {error}", path.display()))
            .hint("sign this archive, or get the one that was signed")
    })?;
    Ok(statement)
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
    let Some(text) = read_text(&directory.join(SEEN))? else { return Ok(None) };
    let seen = serde_json::from_str(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{SEEN} is damaged: {error}")))?;
    Ok(Some(seen))
}

/// Writes what was accepted last, durably. The caller should hold the lock of the directory.
pub(super) fn write_seen(directory: &Path, seen: &Seen) -> io::Result<()> {
    replace(&directory.join(SEEN), serde_json::to_string(seen)?.as_bytes())?;
    File::open(directory)?.sync_all()
}
