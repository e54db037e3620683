//! Opens archives, and protects them from being modified by other processes.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use cannery_archive::{Archive, Lease, Loading, OpenError, VerifyError};
use cannery_site::{Site, VirtualHosts};

use crate::admission::{Admission, AdmissionError, CurrentError, StatementStamp};
use crate::config::{ArchiveSource, Config, HostPattern, NamedArchive};
use crate::error::StartError;
use crate::notice::Notice;
use crate::verification::{Budget, Verification, file_version};

/// Maximum size of an archive that we read into memory if it cannot be leased.
const UNLEASED_COPIED_BYTES_MAX: u64 = 256 << 20;

/// An open archive. Other processes cannot change it while it is served, unless `is_unguarded` is set.
pub(crate) struct OpenedArchive {
    pub(crate) archive: Archive,
    /// Must stay with the thread that checks it because other threads might have separate descriptor tables.
    pub(crate) lease: Option<Lease>,
    /// Whether other processes can change the archive because it can neither be leased nor copied.
    pub(crate) is_unguarded: bool,
}

/// Why an archive can't be served.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    /// The file isn't an intact archive, which won't change.
    Damaged(String),
    /// No listed key has signed it, for example. It won't be served until its file or its statement changes.
    Untrusted { why: String, statement: StatementStamp },
    /// The system couldn't read the file, for example because there are too many open files. The next attempt may succeed.
    Unreadable(String),
}

impl fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFailure::Damaged(why) | OpenFailure::Untrusted { why, .. } | OpenFailure::Unreadable(why) => {
                f.write_str(why)
            }
        }
    }
}

impl From<OpenError> for OpenFailure {
    fn from(error: OpenError) -> OpenFailure {
        let mut cause = &error;
        while let OpenError::At { source, .. } = cause {
            cause = source;
        }
        match cause {
            OpenError::Io(_) => OpenFailure::Unreadable(error.to_string()),
            _ => OpenFailure::Damaged(error.to_string()),
        }
    }
}

impl From<VerifyError> for OpenFailure {
    fn from(error: VerifyError) -> OpenFailure {
        match error {
            VerifyError::Io(_) => OpenFailure::Unreadable(error.to_string()),
            _ => OpenFailure::Damaged(error.to_string()),
        }
    }
}

impl From<AdmissionError> for OpenFailure {
    fn from(error: AdmissionError) -> OpenFailure {
        let why = error.why();
        match error {
            AdmissionError::Untrusted { statement, .. } => OpenFailure::Untrusted { why, statement },
            AdmissionError::Unready(_) => OpenFailure::Unreadable(why),
        }
    }
}

impl From<AdmissionError> for CurrentError {
    fn from(error: AdmissionError) -> CurrentError {
        CurrentError::Signature(error)
    }
}

impl From<CurrentError> for OpenFailure {
    fn from(error: CurrentError) -> OpenFailure {
        match error {
            CurrentError::Open(error) => error.into(),
            CurrentError::Signature(error) => error.into(),
            CurrentError::Verify(error) => error.into(),
        }
    }
}

/// The site of a configured archive.
pub(super) struct OpenedSite {
    pub(super) site: Arc<Site>,
    pub(super) lease: Option<Lease>,
    /// As for [`OpenedArchive`].
    pub(super) is_unguarded: bool,
    pub(super) verification: Verification,
}

/// Opens a configured archive at startup. A file is verified if it is small enough, unless the supervisor has done so. If its signature is
/// demanded, each process verifies all of it: another program could have changed it since the supervisor has.
pub(super) fn open_at_startup(
    named: &NamedArchive,
    config: &Config,
    loading: Loading,
    budget: &mut Budget,
    admission: Option<&mut Admission>,
) -> Result<OpenedSite, StartError> {
    if let Some(admission) = admission {
        let opened = open_current(named.path(), loading, admission)
            .map_err(|error| error.into_start_error(named.path()))?;
        let OpenedArchive { archive, lease, is_unguarded } = opened;
        let site = Arc::new(Site::new(archive, config.virtual_hosts));
        return Ok(OpenedSite { site, lease, is_unguarded, verification: Verification::Done });
    }

    let version = file_version(named);
    let path = || named.path().to_owned();
    let opened = open_named(named, loading, config.virtual_hosts)
        .map_err(|source| StartError::Archive { path: path(), source })?;

    let inheritance = &config.inheritance;
    if !named.is_opened_by_path() {
        return Ok(opened);
    }
    // If the file was replaced while we opened it, either version may be the one that we have opened.
    let is_verified = version.is_some_and(|version| inheritance.verified.contains(&version));
    if is_verified && version == file_version(named) {
        budget.skip(opened.site.archive());
        return Ok(opened);
    }
    let is_further_member = inheritance.member.is_some_and(|number| number > 0);
    let verification = match budget.verify(opened.site.archive()) {
        // One of several processes is enough to find that a large archive is damaged.
        Ok(_) if is_further_member => Verification::Done,
        Ok(verification) => verification,
        // A release that the others have refused. If each process that is started again ended, none would be left. The first one
        // reports it.
        Err(_) if is_further_member => Verification::Done,
        Err(_) if inheritance.member.is_some() => Verification::Pending,
        Err(source) => return Err(StartError::Damaged { path: path(), source }),
    };
    Ok(OpenedSite { verification, ..opened })
}

/// Opens a configured archive, without verifying it.
fn open_named(
    named: &NamedArchive,
    loading: Loading,
    virtual_hosts: VirtualHosts,
) -> Result<OpenedSite, OpenError> {
    let OpenedArchive { archive, lease, is_unguarded } = match named.source() {
        ArchiveSource::Path | ArchiveSource::ReleaseDirectory(_) => open(named.path(), loading)?,
        ArchiveSource::OpenFile(file) => open_file(file, loading)?,
        ArchiveSource::Embedded(bytes) => {
            OpenedArchive { archive: Archive::from_static(bytes)?, lease: None, is_unguarded: false }
        }
        ArchiveSource::Opened(site) => {
            // We can't copy the archive, because the program uses its mapping, too.
            let is_unguarded = site.archive().may_change();
            let site = Arc::clone(site).with_virtual_hosts(virtual_hosts);
            return Ok(OpenedSite { site, lease: None, is_unguarded, verification: Verification::Done });
        }
    };
    let site = Arc::new(Site::new(archive, virtual_hosts));
    Ok(OpenedSite { site, lease, is_unguarded, verification: Verification::Done })
}

/// Opens the current release of a directory whose signatures are demanded, and verifies all of it.
pub(crate) fn open_current(
    path: &Path,
    loading: Loading,
    admission: &mut Admission,
) -> Result<OpenedArchive, CurrentError> {
    let opened = admission.open_current(path, |path| open_signed(path, loading), |opened| &opened.archive)?;
    opened.check_unchanged()?;
    Ok(opened)
}

/// Opens an archive whose signature is demanded. No other process can change its bytes, also if one still has it open after its name
/// was removed.
pub(crate) fn open_signed(path: &Path, loading: Loading) -> Result<OpenedArchive, CurrentError> {
    let (archive, lease) = Archive::open_leased(path, loading).map_err(CurrentError::Open)?;
    if lease.is_some() || archive.is_in_memory() {
        return Ok(OpenedArchive { archive, lease, is_unguarded: false });
    }
    if archive.facts().file_bytes > UNLEASED_COPIED_BYTES_MAX {
        return Err(AdmissionError::changeable().into());
    }
    let archive = Archive::open(path, Loading::InMemory).map_err(CurrentError::Open)?;
    Ok(OpenedArchive { archive, lease: None, is_unguarded: false })
}

impl OpenedArchive {
    /// Checks after the verification that nothing could have written to the archive during it. A lease only holds writers up for a while.
    pub(crate) fn check_unchanged(&self) -> Result<(), AdmissionError> {
        match &self.lease {
            Some(lease) if lease.is_being_broken() => Err(AdmissionError::written()),
            _ => Ok(()),
        }
    }
}

/// Opens an archive. It is mapped if it can be leased, and otherwise read into memory if it is small enough.
pub(crate) fn open(path: &Path, loading: Loading) -> Result<OpenedArchive, OpenError> {
    let (archive, lease) = Archive::open_leased(path, loading)?;
    guard(archive, lease, || Archive::open(path, Loading::InMemory))
}

/// Opens the archive in an open file. If the file has a name, it is read into memory if it is small enough.
pub(crate) fn open_file(file: &File, loading: Loading) -> Result<OpenedArchive, OpenError> {
    guard(Archive::from_file(file, loading)?, None, || Archive::from_file(file, Loading::InMemory))
}

/// Returns the notice about an archive that other processes could change, and that the server has not opened by its path.
pub(crate) fn opened_unguarded(name: &Path, host: Option<&HostPattern>) -> Notice {
    Notice::OpenedUnguarded { name: name.to_owned(), host: host.map(ToString::to_string) }
}

/// Copies an archive that other processes could change, unless it is too large.
fn guard(
    archive: Archive,
    lease: Option<Lease>,
    copy: impl FnOnce() -> Result<Archive, OpenError>,
) -> Result<OpenedArchive, OpenError> {
    if lease.is_some() || !archive.may_change() {
        return Ok(OpenedArchive { archive, lease, is_unguarded: false });
    }
    if archive.facts().file_bytes > UNLEASED_COPIED_BYTES_MAX {
        return Ok(OpenedArchive { archive, lease, is_unguarded: true });
    }
    Ok(OpenedArchive { archive: copy()?, lease, is_unguarded: false })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::worker::simulation;

    #[test]
    fn signed_archives_are_not_changed_by_processes_that_have_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.cdb");
        let bytes = simulation::archive("a");
        std::fs::write(&path, &bytes).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();

        let opened = open_signed(&path, Loading::Mapped).unwrap();
        assert!(opened.lease.is_none() && opened.archive.is_in_memory());
        writer.write_all_at(&vec![0; bytes.len()], 0).unwrap();
        opened.archive.verify(|_| {}).unwrap();
    }

    /// It may be closed again without a change, so the file must not count as refused until it changes.
    #[test]
    fn file_opened_for_writing_during_the_verification_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.cdb");
        std::fs::write(&path, simulation::archive("a")).unwrap();
        let opened = open_signed(&path, Loading::Mapped).unwrap();
        let Some(lease) = &opened.lease else { return };
        opened.check_unchanged().unwrap();

        let writer = std::thread::spawn(move || File::options().write(true).open(path).map(drop));
        let end = Instant::now() + Duration::from_secs(20);
        while !lease.is_being_broken() {
            assert!(Instant::now() < end, "the lease is not broken");
            std::thread::sleep(Duration::from_millis(2));
        }
        let failure = OpenFailure::from(opened.check_unchanged().unwrap_err());
        assert!(matches!(failure, OpenFailure::Unreadable(_)), "{failure}");
        drop(opened);
        writer.join().unwrap().unwrap();
    }
}
