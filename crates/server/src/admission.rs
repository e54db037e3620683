//! Admits the releases of a directory whose signatures are demanded.
//!
//! The statement is verified before the archive's digest, which takes a second per gigabyte. A release is opened only once unless its
//! file or its statement changes.
//!
//! The last admitted statement is kept for as long as the process runs. We don't read `.seen.json`, in which `cannery receive` keeps the same:
//! it is written before the release becomes current, so a start in between would refuse the release that is live.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_archive::{Archive, Loading, OpenError, VerifyError};
use cannery_base::{FileStamp, FileVersion};
use cannery_trust::{Policy, Seen, Signed, Untrusted};

use crate::config::CURRENT;
use crate::error::StartError;
use crate::statement_files::{SIGNATURE_SUFFIX, STATEMENT_SUFFIX, beside, read_signed};

/// Decides which releases of a directory may be served.
#[derive(Debug)]
pub(crate) struct Admission {
    policy: Arc<Policy>,
    /// Site and sequence of the newest accepted statement.
    seen: Option<Seen>,
    /// The files of the statement about the current release.
    accepted: Option<StatementStamp>,
}

/// A statement by which a release may become current.
#[derive(Debug)]
pub(crate) struct Acceptable {
    seen: Seen,
    statement: StatementStamp,
}

/// Why the current release can't be served.
#[derive(Debug)]
pub(crate) enum CurrentError {
    Open(OpenError),
    Signature(AdmissionError),
    Verify(VerifyError),
}

/// Why a release isn't admitted.
#[derive(Debug)]
pub(crate) enum AdmissionError {
    /// It won't be until its file or its statement changes.
    Untrusted { why: String, statement: StatementStamp },
    /// The system can't read the statement. The next attempt may succeed, also in the cases below.
    Unreadable(io::Error),
    /// Other processes could change the archive after it was verified.
    Changeable,
    /// Another process has the archive open for writing, or has opened it for writing while it was verified.
    Written,
}

impl CurrentError {
    pub(crate) fn into_start_error(self, path: &Path) -> StartError {
        let path = path.to_owned();
        match self {
            CurrentError::Open(source) => StartError::Archive { path, source },
            CurrentError::Signature(error) => {
                let why = error.why();
                match error {
                    AdmissionError::Untrusted { .. } => StartError::Untrusted { path, why },
                    AdmissionError::Unreadable(source) => {
                        StartError::Unready { path, why, source: Some(source) }
                    }
                    AdmissionError::Changeable | AdmissionError::Written => {
                        StartError::Unready { path, why, source: None }
                    }
                }
            }
            CurrentError::Verify(source) => StartError::Damaged { path, source },
        }
    }
}

impl AdmissionError {
    pub(crate) fn why(&self) -> String {
        match self {
            AdmissionError::Untrusted { why, .. } => why.clone(),
            AdmissionError::Unreadable(error) => format!("cannot read the signature: {error}"),
            AdmissionError::Changeable => {
                "other processes could change it after it was verified: let the server own the file or have CAP_LEASE, or read the \
                 archive into memory (`--archive-inmem`)"
                    .to_owned()
            }
            AdmissionError::Written => {
                "another process has it open for writing: write archives under another name, and rename them once they are complete"
                    .to_owned()
            }
        }
    }
}

/// Versions of the files that contain the statement about an archive and its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementStamp {
    archive: PathBuf,
    files: Box<[Option<FileStamp>; 2]>,
}

impl StatementStamp {
    fn of(archive: &Path) -> StatementStamp {
        let stamp = |suffix| fs::metadata(beside(archive, suffix)).ok().map(|found| FileStamp::of(&found));
        StatementStamp {
            archive: archive.to_owned(),
            files: Box::new([STATEMENT_SUFFIX, SIGNATURE_SUFFIX].map(stamp)),
        }
    }

    /// Returns `true` if the statement has been written or signed again.
    pub(crate) fn has_changed(&self) -> bool {
        StatementStamp::of(&self.archive) != *self
    }
}

impl Admission {
    pub(crate) fn new(policy: Arc<Policy>) -> Admission {
        Admission { policy, seen: None, accepted: None }
    }

    /// Decides whether an archive with this name may become current. The caller should verify the archive, and then
    /// [accept](Self::accept) it.
    pub(crate) fn check_next(&self, path: &Path, archive: &Archive) -> Result<Acceptable, AdmissionError> {
        let (seen, statement) = self.read(path, |signed| self.check_current(signed, archive))?;
        Ok(Acceptable { seen, statement })
    }

    /// Takes a verified archive as the current release.
    pub(crate) fn accept(&mut self, Acceptable { seen, statement }: Acceptable) {
        (self.seen, self.accepted) = (Some(seen), Some(statement));
    }

    /// Reads the statement about the current release again if it has changed. It may have been signed once more, so that no older release
    /// becomes current. The release stays current even if the statement isn't acceptable any more.
    pub(crate) fn check_again(&mut self, current: &Archive) {
        let Some(accepted) = self.accepted.as_ref().filter(|accepted| accepted.has_changed()) else { return };
        match self.check_next(&accepted.archive, current) {
            Ok(acceptable) => self.accept(acceptable),
            Err(AdmissionError::Untrusted { statement, .. }) => self.accepted = Some(statement),
            Err(AdmissionError::Unreadable(_) | AdmissionError::Changeable | AdmissionError::Written) => {}
        }
    }

    /// Decides whether another release may be served for its immutable paths. The caller should verify the archive then.
    pub(crate) fn check_other(&self, path: &Path, archive: &Archive) -> Result<(), AdmissionError> {
        self.read(path, |signed| self.check_signed(signed, archive)).map(drop)
    }

    /// Reads the statement beside an archive, and passes it to `check`. Also returns the version of the statement.
    fn read<T>(
        &self,
        path: &Path,
        check: impl FnOnce(Option<&Signed>) -> Result<T, Untrusted>,
    ) -> Result<(T, StatementStamp), AdmissionError> {
        // First, in order to notice any later change.
        let statement = StatementStamp::of(path);
        let checked = match read_signed(path) {
            Ok(signed) => check(signed.as_ref()).map_err(|error| error.to_string()),
            // No later attempt would find anything else in these files.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
                ) =>
            {
                Err(AdmissionError::Unreadable(error).why())
            }
            Err(error) => return Err(AdmissionError::Unreadable(error)),
        };
        match checked {
            Ok(checked) => Ok((checked, statement)),
            Err(why) => Err(AdmissionError::Untrusted { why, statement }),
        }
    }

    /// Decides whether a release may become current.
    fn check_current(&self, signed: Option<&Signed>, archive: &Archive) -> Result<Seen, Untrusted> {
        let (statement, seen) = self.policy.check(signed, self.seen.as_ref())?;
        statement.check(archive)?;
        Ok(seen)
    }

    /// Decides the same for a release that doesn't become current, so it may be older than the current one.
    fn check_signed(&self, signed: Option<&Signed>, archive: &Archive) -> Result<(), Untrusted> {
        let statement = self.policy.check_other(signed, self.seen.as_ref())?;
        statement.check(archive)?;
        Ok(())
    }
}

/// Returns the file in a release directory that `current` points at, by the name that its statement has.
pub(crate) fn named_file(current: &Path) -> Result<PathBuf, CurrentError> {
    current_file(current).map_err(|error| match Archive::open(current, Loading::Mapped) {
        // This says more.
        Err(cause) => CurrentError::Open(cause),
        Ok(_) => CurrentError::Signature(error),
    })
}

/// Returns the file in a release directory that `current` points at.
///
/// We compare inodes, because threads in the sandbox may not read links. If the file has several names, one with a signature is returned.
fn current_file(current: &Path) -> Result<PathBuf, AdmissionError> {
    let unreadable = AdmissionError::Unreadable;
    let target = FileVersion::at(current).map_err(unreadable)?;
    let directory = current.parent().unwrap_or(Path::new("."));

    let mut found = None;
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") || name == CURRENT {
            continue;
        }
        // Others may be removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() && FileVersion::of(&metadata).is_same_file(&target) {
            let path = entry.path();
            if [STATEMENT_SUFFIX, SIGNATURE_SUFFIX].iter().all(|suffix| beside(&path, suffix).exists()) {
                return Ok(path);
            }
            found.get_or_insert(path);
        }
    }
    found.ok_or_else(|| AdmissionError::Untrusted {
        why: "it doesn't point at a file of this directory, where the signature would be".to_owned(),
        statement: StatementStamp::of(current),
    })
}

#[cfg(test)]
mod tests {
    use cannery_trust::{PublicKeys, Statement};
    use minisign::KeyPair;

    use super::*;
    use crate::worker::simulation;

    fn key() -> KeyPair {
        KeyPair::generate_unencrypted_keypair().unwrap()
    }

    fn admission(keys: &[&KeyPair], site: Option<&str>) -> Admission {
        let mut listed = PublicKeys::default();
        for key in keys {
            listed.extend(PublicKeys::parse(&key.pk.to_base64()).unwrap());
        }
        Admission::new(Arc::new(Policy::new(listed, site.map(str::to_owned))))
    }

    fn archive(name: &str) -> Archive {
        Archive::from_bytes(simulation::archive(name)).unwrap()
    }

    fn sign(key: &KeyPair, archive: &Archive, site: &str, sequence: u64) -> Signed {
        let statement = Statement::of(archive, site, sequence, 0).to_text();
        let signature = minisign::sign(None, &key.sk, statement.as_bytes(), None, None).unwrap();
        Signed { statement, signature: signature.into_string() }
    }

    /// Lets a release become current if it is admitted.
    fn activate(admission: &mut Admission, signed: &Signed, archive: &Archive) -> Result<(), String> {
        let seen = admission.check_current(Some(signed), archive).map_err(|error| error.to_string())?;
        admission.seen = Some(seen);
        Ok(())
    }

    #[test]
    fn sequence_of_the_current_release_never_falls() {
        let key = key();
        let mut admission = admission(&[&key], None);
        let [first, second] = ["first", "second"].map(archive);
        let old = sign(&key, &first, "a", 1);
        activate(&mut admission, &old, &first).unwrap();
        activate(&mut admission, &sign(&key, &second, "a", 2), &second).unwrap();
        assert!(activate(&mut admission, &old, &first).unwrap_err().contains("older"));
        admission.check_signed(Some(&old), &first).unwrap();

        // A rollback signs it again.
        activate(&mut admission, &sign(&key, &first, "a", 3), &first).unwrap();
        assert!(activate(&mut admission, &sign(&key, &second, "a", 3), &second).is_err());
    }

    #[test]
    fn first_release_decides_the_site() {
        let key = key();
        let archive = archive("a");
        let of_b = sign(&key, &archive, "b", 9);
        let mut open = admission(&[&key], None);
        activate(&mut open, &sign(&key, &archive, "a", 1), &archive).unwrap();
        for admission in [open, admission(&[&key], Some("a"))] {
            assert!(admission.check_current(Some(&of_b), &archive).is_err());
            assert!(admission.check_signed(Some(&of_b), &archive).is_err());
        }
    }

    #[test]
    fn all_listed_keys_and_no_others_are_accepted() {
        let (old, new, other) = (key(), key(), key());
        let [first, second] = ["first", "second"].map(archive);
        let mut admission = admission(&[&old, &new], None);
        activate(&mut admission, &sign(&old, &first, "a", 1), &first).unwrap();
        activate(&mut admission, &sign(&new, &second, "a", 2), &second).unwrap();
        assert!(activate(&mut admission, &sign(&other, &first, "a", 3), &first).is_err());
        assert!(activate(&mut admission, &sign(&new, &first, "a", 3), &second).is_err(), "another archive");
        assert_eq!(admission.check_current(None, &second).unwrap_err(), Untrusted::Unsigned);
        assert_eq!(admission.check_signed(None, &second).unwrap_err(), Untrusted::Unsigned);
    }

    #[test]
    fn only_untrusted_releases_need_a_signature() {
        let start_error = |error| CurrentError::Signature(error).into_start_error(Path::new("current"));
        let no_descriptor = io::Error::from_raw_os_error(libc::EMFILE);
        for error in
            [AdmissionError::Unreadable(no_descriptor), AdmissionError::Changeable, AdmissionError::Written]
        {
            let error = start_error(error);
            assert!(matches!(error, StartError::Unready { .. }), "{error}");
        }
        let statement = StatementStamp::of(Path::new("current"));
        let error = start_error(AdmissionError::Untrusted { why: "unsigned".to_owned(), statement });
        assert!(matches!(error, StartError::Untrusted { .. }), "{error}");
    }

    #[test]
    fn statement_that_is_written_again_counts() {
        let key = key();
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, signed: &Signed| {
            let path = folder.path().join(format!("{name}.cdb"));
            // Another inode each time, as from `cannery sign`.
            for (suffix, text) in
                [(STATEMENT_SUFFIX, &signed.statement), (SIGNATURE_SUFFIX, &signed.signature)]
            {
                let next = folder.path().join("next");
                fs::write(&next, text).unwrap();
                fs::rename(&next, beside(&path, suffix)).unwrap();
            }
            path
        };
        let mut admission = admission(&[&key], None);
        let [first, second] = ["first", "second"].map(archive);
        let path = write("1", &sign(&key, &first, "a", 1));
        let acceptable = admission.check_next(&path, &first).unwrap();
        admission.accept(acceptable);
        let staged = write("2", &sign(&key, &second, "a", 2));
        admission.check_next(&staged, &second).unwrap();

        // A rollback that chooses the first one again.
        write("1", &sign(&key, &first, "a", 3));
        admission.check_again(&first);
        assert!(admission.check_next(&staged, &second).unwrap_err().why().contains("older"));
        // A statement that isn't acceptable changes nothing.
        write("1", &sign(&key, &first, "b", 4));
        admission.check_again(&first);
        assert_eq!(admission.seen.as_ref().map(|seen| seen.sequence), Some(3));

        fs::write(beside(&staged, STATEMENT_SUFFIX), b"\xff").unwrap();
        let error = admission.check_next(&staged, &second).unwrap_err();
        assert!(matches!(error, AdmissionError::Untrusted { .. }), "{}", error.why());
    }

    #[test]
    fn statement_is_found_by_the_file_that_current_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let file = || current_file(&path(CURRENT)).map_err(|error| error.why());
        fs::create_dir(path("releases")).unwrap();
        fs::write(path("1.cdb"), "").unwrap();
        std::os::unix::fs::symlink("1.cdb", path(CURRENT)).unwrap();
        assert_eq!(file().unwrap(), path("1.cdb"));

        fs::hard_link(path("1.cdb"), path("2.cdb")).unwrap();
        let before = StatementStamp::of(&path("2.cdb"));
        assert!(!before.has_changed());
        fs::write(path("2.cdb.release"), "").unwrap();
        assert!(before.has_changed());
        assert_eq!(file().unwrap(), path("2.cdb"));

        fs::remove_file(path(CURRENT)).unwrap();
        fs::write(path("releases/3.cdb"), "").unwrap();
        std::os::unix::fs::symlink("releases/3.cdb", path(CURRENT)).unwrap();
        assert!(file().unwrap_err().contains("doesn't point at a file of this directory"));
    }
}
