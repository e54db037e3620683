//! Opens archives, and protects them from being modified by other processes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Loading, OpenError, VerifyError, Writers};
use cannery_site::{Site, VirtualHosts};

use super::leases::{Leases, TakenLease};
use crate::admission::{Admission, AdmissionError, CurrentError, StatementStamp, named_file};
use crate::config::{ArchiveSource, Config, HostPattern, NamedArchive};
use crate::error::StartError;
use crate::notice::Notice;
use crate::verification::{Budget, Verification, file_version};

/// Maximum size of an archive that we read into memory if it cannot be leased.
pub(super) const UNLEASED_COPIED_BYTES_MAX: u64 = 256 << 20;

/// An archive that a process has open for writing can't be leased. It is looked at again so many times before it is copied or refused,
/// because most writers are done soon.
pub(crate) const WRITTEN_LOOKS_MAX: u32 = 12;

/// Interval between these looks at the start.
const WRITTEN_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// An open archive. Other processes cannot change it while it is served, unless `is_unguarded` is set.
pub(crate) struct OpenedArchive {
    pub(crate) archive: Archive,
    pub(crate) lease: Option<TakenLease>,
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
            AdmissionError::Unreadable(_) | AdmissionError::Changeable | AdmissionError::Written => {
                OpenFailure::Unreadable(why)
            }
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
    lease: Option<TakenLease>,
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
    leases: &mut Leases,
) -> Result<OpenedSite, StartError> {
    if let Some(admission) = admission {
        let mut looks = 0;
        let opened = loop {
            let opened = match looks < WRITTEN_LOOKS_MAX && is_being_written(named.path()) {
                true => Err(AdmissionError::Written.into()),
                false => open_current(named.path(), loading, admission, leases),
            };
            match opened {
                Err(CurrentError::Signature(AdmissionError::Written)) if looks < WRITTEN_LOOKS_MAX => {
                    looks += 1;
                    thread::sleep(WRITTEN_LOOK_INTERVAL);
                    leases.look_after();
                }
                opened => break opened.map_err(|error| error.into_start_error(named.path()))?,
            }
        };
        let OpenedArchive { archive, lease, is_unguarded } = opened;
        let site = Arc::new(Site::new(archive, config.virtual_hosts));
        leases.add(named.path(), &site, lease, true);
        return Ok(OpenedSite { site, lease: None, is_unguarded, verification: Verification::Done });
    }

    let mut opened = open_unsigned_at_startup(named, config, loading, budget, leases)?;
    leases.add(named.path(), &opened.site, opened.lease.take(), false);
    Ok(opened)
}

/// Opens a configured archive whose signature isn't demanded.
fn open_unsigned_at_startup(
    named: &NamedArchive,
    config: &Config,
    loading: Loading,
    budget: &mut Budget,
    leases: &mut Leases,
) -> Result<OpenedSite, StartError> {
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
    let verification = match budget.verify(opened.site.archive(), |_| leases.look_after()) {
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
    current: &Path,
    loading: Loading,
    admission: &mut Admission,
    leases: &mut Leases,
) -> Result<OpenedArchive, CurrentError> {
    let path = named_file(current)?;
    let check = |archive: &Archive| admission.check_next(&path, archive);
    let (opened, acceptable) = open_signed(&path, loading, check, leases)?;
    admission.accept(acceptable);
    Ok(opened)
}

/// Opens an archive whose signature is demanded, and verifies all of it. `check` decides whether its statement is acceptable.
///
/// No other process can change its bytes, also if one still has it open after its name was removed.
pub(crate) fn open_signed<T>(
    path: &Path,
    loading: Loading,
    check: impl Fn(&Archive) -> Result<T, AdmissionError>,
    leases: &mut Leases,
) -> Result<(OpenedArchive, T), CurrentError> {
    // Before the archive is copied or read, which takes time and memory.
    check(&Archive::open(path, Loading::Mapped).map_err(CurrentError::Open)?)?;

    let mut opened = open_leased(path, loading).map_err(CurrentError::Open)?;
    if opened.lease.is_none() && !opened.archive.is_in_memory() {
        if opened.archive.facts().file_bytes > UNLEASED_COPIED_BYTES_MAX {
            let is_written = is_being_written(path);
            return Err(if is_written { AdmissionError::Written } else { AdmissionError::Changeable }.into());
        }
        opened.archive = Archive::open(path, Loading::InMemory).map_err(CurrentError::Open)?;
    }
    leases.look_after();

    // Again, because the file may have changed before it was leased or copied.
    let checked = check(&opened.archive)?;
    opened.archive.verify(|_| leases.look_after()).map_err(CurrentError::Verify)?;
    // A lease only holds writers up for a while.
    if opened.lease.as_ref().is_some_and(|lease| !lease.is_intact()) {
        return Err(AdmissionError::Written.into());
    }
    Ok((opened, checked))
}

/// Opens an archive, and takes a lease on its file.
fn open_leased(path: &Path, loading: Loading) -> Result<OpenedArchive, OpenError> {
    let since = Instant::now();
    let (archive, lease) = Archive::open_leased(path, loading)?;
    let lease = lease.map(|lease| TakenLease { lease, since });
    Ok(OpenedArchive { archive, lease, is_unguarded: false })
}

/// Returns whether another process has a file open for writing, so that it can't be leased.
pub(crate) fn writers(path: &Path) -> Writers {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => cannery_archive::writers(&file),
        Err(_) => Writers::Unknown,
    }
}

pub(crate) fn is_being_written(path: &Path) -> bool {
    writers(path) == Writers::Present
}

/// Opens an archive. It is mapped if it can be leased, and otherwise read into memory if it is small enough.
pub(crate) fn open(path: &Path, loading: Loading) -> Result<OpenedArchive, OpenError> {
    let OpenedArchive { archive, lease, .. } = open_leased(path, loading)?;
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
    lease: Option<TakenLease>,
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
    use std::cell::Cell;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::worker::simulation;

    #[test]
    fn signed_archives_are_not_changed_by_processes_that_have_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.cdb");
        let bytes = simulation::archive("a");
        std::fs::write(&path, &bytes).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let (opened, ()) = open_signed(&path, Loading::Mapped, |_| Ok(()), &mut Leases::new()).unwrap();
        assert!(opened.lease.is_none() && opened.archive.is_in_memory());
        writer.write_all_at(&vec![0; bytes.len()], 0).unwrap();
        assert_eq!(opened.archive.bytes(), bytes);
    }

    #[test]
    fn file_opened_for_writing_during_the_verification_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.cdb");
        std::fs::write(&path, simulation::archive("a")).unwrap();
        if writers(&path) == Writers::Unknown {
            return;
        }
        let (checks, writer) = (Cell::new(0), Cell::new(None));
        let check = |_: &Archive| {
            checks.set(checks.get() + 1);
            // The second check is right before the verification.
            if checks.get() == 2 {
                let written = path.clone();
                let (begun, has_begun) = std::sync::mpsc::channel();
                let opening = thread::spawn(move || {
                    begun.send(()).unwrap();
                    File::options().write(true).open(written).map(drop).unwrap();
                });
                has_begun.recv().unwrap();
                // Another lease can't be taken once the first one is being broken.
                let end = Instant::now() + Duration::from_secs(20);
                while writers(&path) == Writers::Absent {
                    assert!(Instant::now() < end, "the lease is not broken");
                    thread::sleep(Duration::from_millis(2));
                }
                writer.set(Some(opening));
            }
            Ok(())
        };
        let failed = open_signed(&path, Loading::Mapped, check, &mut Leases::new()).map(drop);
        assert!(matches!(failed, Err(CurrentError::Signature(AdmissionError::Written))), "{failed:?}");
        writer.take().unwrap().join().unwrap();
    }

    #[test]
    fn statement_is_checked_before_an_archive_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.cdb");
        std::fs::write(&path, simulation::archive("a")).unwrap();
        let copied = Cell::new(None);
        let check = |archive: &Archive| {
            copied.set(Some(archive.is_in_memory()));
            Err::<(), _>(AdmissionError::Changeable)
        };
        open_signed(&path, Loading::InMemory, check, &mut Leases::new()).map(drop).unwrap_err();
        assert_eq!(copied.get(), Some(false));
    }
}
