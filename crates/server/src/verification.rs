//! Verifies archives before they are served, or decides that this has to wait.

use std::path::Path;

use cannery_archive::{Archive, Loading, VerifyError};
use cannery_base::FileVersion;

use crate::admission::{Admission, CurrentError, named_file};
use crate::config::{Config, NamedArchive};
use crate::error::StartError;

/// Archives of up to this many bytes are verified before their first byte is served: at startup, and when a site of a directory is
/// opened. New releases are always verified first.
pub const ARCHIVE_VERIFIED_BYTES_MAX: u64 = 16 << 20;

/// At most this many bytes are verified before the server is ready: of all configured archives, and again of the other releases
/// in a directory. This takes a few hundredths of a second. The rest will be verified later.
pub(crate) const VERIFIED_AT_STARTUP_BYTES_MAX: u64 = 64 << 20;

/// Whether all of an archive has been verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Verification {
    #[default]
    Done,
    /// The archive is large, so it is verified while it is being served.
    Pending,
}

/// Verifies the configured archives that are small enough, for processes that are about to serve them. Returns the versions of
/// their files, except for those whose signatures are demanded.
///
/// # Errors
/// Returns an error if an archive cannot be opened, or is damaged.
pub(crate) fn verify_for_processes(config: &Config) -> Result<Vec<FileVersion>, StartError> {
    let mut verified = Vec::new();
    let mut budget = Budget::default();
    for named in config.content.archives().iter().filter(|named| named.is_opened_by_path()) {
        if let Some(policy) = named.releases().and(config.release_trust.clone()) {
            // Each process does this again, see `open_at_startup`.
            verify_signed(named.path(), &mut Admission::new(policy))
                .map_err(|error| error.into_start_error(named.path()))?;
            continue;
        }

        let version = file_version(named);
        let path = || named.path().to_owned();
        let archive = Archive::open(named.path(), Loading::Mapped)
            .map_err(|source| StartError::Archive { path: path(), source })?;
        let verification =
            budget.verify(&archive, |_| {}).map_err(|source| StartError::Damaged { path: path(), source })?;
        verified.extend(version.filter(|_| verification == Verification::Done));
    }
    Ok(verified)
}

/// Verifies the current release of a directory whose signatures are demanded. Other processes may still change it.
fn verify_signed(current: &Path, admission: &mut Admission) -> Result<(), CurrentError> {
    let path = named_file(current)?;
    let archive = Archive::open(&path, Loading::Mapped).map_err(CurrentError::Open)?;
    let acceptable = admission.check_next(&path, &archive)?;
    archive.verify(|_| {}).map_err(CurrentError::Verify)?;
    admission.accept(acceptable);
    Ok(())
}

pub(crate) fn file_version(named: &NamedArchive) -> Option<FileVersion> {
    FileVersion::at(named.path()).ok()
}

/// The bytes that are still verified before a start, which shouldn't take longer however many archives there are.
pub(crate) struct Budget {
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { bytes: VERIFIED_AT_STARTUP_BYTES_MAX }
    }
}

impl Budget {
    /// Verifies an archive if it is small enough, and so are all archives together.
    pub(crate) fn verify(
        &mut self,
        archive: &Archive,
        progress: impl FnMut(u64),
    ) -> Result<Verification, VerifyError> {
        let Some(rest) = self.bytes.checked_sub(archive.facts().file_bytes) else {
            return Ok(Verification::Pending);
        };
        let verification = verify_if_small(archive, progress)?;
        if verification == Verification::Done {
            self.bytes = rest;
        }
        Ok(verification)
    }

    /// Counts an archive that another process has verified, so that all processes agree on the archives that are left.
    pub(crate) fn skip(&mut self, archive: &Archive) {
        self.bytes = self.bytes.saturating_sub(archive.facts().file_bytes);
    }
}

/// Verifies an archive, unless it is so large that its clients would have to wait.
pub(crate) fn verify_if_small(
    archive: &Archive,
    progress: impl FnMut(u64),
) -> Result<Verification, VerifyError> {
    if archive.facts().file_bytes > ARCHIVE_VERIFIED_BYTES_MAX {
        return Ok(Verification::Pending);
    }
    archive.verify(progress)?;
    Ok(Verification::Done)
}
