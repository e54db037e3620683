//! A release directory. It contains archives, and a symbolic link named `current` to the one being served.
//!
//! The link is replaced with a single rename, so that processes opening it will get either the old or the new release. An archive
//! that is being received has a hidden name until it is complete.
//!
//! A process that changes the directory holds its lock meanwhile, except for the long time that receiving an archive takes.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::{Archive, Loading, OpenError};
use cannery_archiver::manifest::Manifest;
use cannery_publish::protocol::ReleaseState;
use cannery_publish::{file_system_time, inode_change, remove_abandoned};
use cannery_server::short_file::{self, SETTINGS_BYTES_MAX};
use cannery_server::statement_files::{SIGNATURE_SUFFIX, STATEMENT_SUFFIX};

/// Name of the symbolic link.
pub(super) const CURRENT: &str = "current";

/// The file with the digests of releases that a rollback has skipped.
const ROLLED_BACK: &str = ".rolled-back.json";

/// File extension of archives. Files with this extension are listed even if we fail to open them.
const SUFFIX: &str = "cdb";

/// A directory of archives.
pub(super) struct ReleaseDir {
    pub(super) path: PathBuf,
    /// Newest first. Releases that cannot be opened come last.
    pub(super) releases: Vec<Release>,
    /// The release that `current` points to, unless it points to something else or nothing.
    pub(super) current: Option<OsString>,
    /// Digests of releases that a rollback has skipped.
    rolled_back: Vec<String>,
}

/// An archive in the directory.
pub(super) struct Release {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// File modification time in seconds since 1970.
    pub(super) written: Option<u64>,
    /// When the file got its name at the latest. Other changes of the inode count, too.
    named: Option<SystemTime>,
    /// Facts from the archive, or why it cannot be opened.
    pub(super) label: Result<Label, OpenError>,
}

/// Facts stored in an archive.
pub(super) struct Label {
    pub(super) serial: u64,
    /// Release date in seconds since 1970, unless the archive was built without a date.
    pub(super) released: Option<u64>,
    pub(super) digest: String,
    pub(super) paths: u64,
    /// Number of paths carried over from earlier releases.
    pub(super) carried: u64,
}

impl ReleaseDir {
    /// Reads the directory. This opens all archives, but does not read the whole of them.
    pub(super) fn read(path: &Path) -> io::Result<ReleaseDir> {
        let mut releases = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // Files that are currently being copied or built have hidden names. `current` should be a link, but it is not a
            // release even if it happens to be a file.
            let name = entry.file_name();
            let is_release = !name.as_bytes().starts_with(b".") && name != CURRENT;
            if entry.file_type()?.is_file() && is_release {
                releases.extend(Release::read(path, entry.file_name()));
            }
        }
        releases.sort_by(|a, b| a.rank().cmp(&b.rank()));

        let target = fs::canonicalize(path.join(CURRENT)).ok();
        let is_current = |release: &&Release| {
            target.is_some() && fs::canonicalize(path.join(&release.name)).ok() == target
        };
        let current = releases.iter().find(is_current).map(|release| release.name.clone());
        // Without this file, or with a damaged one, they only look as if they were staged.
        let rolled_back = short_file::read(&path.join(ROLLED_BACK), SETTINGS_BYTES_MAX).unwrap_or_default();
        let rolled_back = serde_json::from_slice(&rolled_back).unwrap_or_default();
        Ok(ReleaseDir { path: path.to_owned(), releases, current, rolled_back })
    }

    /// Returns a directory without releases.
    pub(super) fn empty(path: &Path) -> ReleaseDir {
        ReleaseDir { path: path.to_owned(), releases: Vec::new(), current: None, rolled_back: Vec::new() }
    }

    /// Waits until no other process of ours changes the directory. The lock is released when the file is dropped, or by a crash.
    pub(super) fn lock(path: &Path) -> io::Result<File> {
        loop {
            let directory = File::open(path)?;
            directory.lock()?;
            // While we waited, the directory may have been removed, and another one created.
            let (locked, present) = (directory.metadata()?, fs::metadata(path)?);
            if (locked.dev(), locked.ino()) == (present.dev(), present.ino()) {
                return Ok(directory);
            }
        }
    }

    /// Returns a file that shows that this is the folder of a site, or has another purpose. `None` for a directory that doesn't exist.
    pub(super) fn file_of_site(&self) -> io::Result<Option<OsString>> {
        if self.path.join(CURRENT).is_symlink() {
            return Ok(None);
        }
        // There may be archives in the folder of a site.
        for name in ["index.html", "_redirects", "_headers"] {
            if fs::symlink_metadata(self.path.join(name)).is_ok() {
                return Ok(Some(name.into()));
            }
        }
        if !self.releases.is_empty() {
            return Ok(None);
        }
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        Ok(names?.into_iter().find(|name| !name.as_bytes().starts_with(b".") && name != "lost+found"))
    }

    pub(super) fn is_current(&self, release: &Release) -> bool {
        self.current.as_ref() == Some(&release.name)
    }

    /// Returns whether a release is or was served.
    pub(super) fn state(&self, release: &Release) -> ReleaseState {
        if self.is_current(release) {
            return ReleaseState::Current;
        }
        let serial = release.serial();
        match &release.label {
            Ok(label) if self.rolled_back.contains(&label.digest) => ReleaseState::RolledBack,
            Ok(_) if serial > self.current_release().and_then(Release::serial) => ReleaseState::Staged,
            _ => ReleaseState::Earlier,
        }
    }

    fn current_release(&self) -> Option<&Release> {
        self.releases.iter().find(|release| self.is_current(release))
    }

    /// Records which releases are rolled back after a switch from the current release to another one.
    fn record_switch(&self, name: &OsStr) -> io::Result<()> {
        let next = self.releases.iter().find(|release| release.name == name);
        let (Some(before), Some(next)) = (self.current_release(), next) else { return Ok(()) };
        let is_recorded = |label: &Label| {
            // The switch skips all releases between the two. Older ones than the current release need no record.
            let was_recorded = self.rolled_back.contains(&label.digest);
            Some(label.serial) > next.serial() && (Some(label.serial) <= before.serial() || was_recorded)
        };
        let labels = self.releases.iter().filter_map(|release| release.label.as_ref().ok());
        let digests: Vec<_> = labels.filter(|label| is_recorded(label)).map(|label| &label.digest).collect();
        let path = self.path.join(ROLLED_BACK);
        match digests.is_empty() {
            true if self.rolled_back.is_empty() => Ok(()),
            true => fs::remove_file(path),
            false => replace(&path, &serde_json::to_vec(&digests)?),
        }
    }

    /// Returns the newest intact release before the current one.
    pub(super) fn before_current(&self) -> Option<&Release> {
        let current = self.releases.iter().position(|release| self.is_current(release))?;
        self.releases[current + 1..].iter().find(|release| release.label.is_ok())
    }

    pub(super) fn release_path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Returns how long a release has had its name at least. Zero if the directory can't be written.
    ///
    /// Both times are those of the file system: if our clock were an hour ahead of it, a new release would look old.
    pub(super) fn named_for(&self, release: &Release) -> Duration {
        let temporary = self.path.join(format!("{TEMPORARY_PREFIX}{}-time", std::process::id()));
        let now = file_system_time(&temporary).ok();
        let elapsed = now.zip(release.named).and_then(|(now, named)| now.duration_since(named).ok());
        elapsed.unwrap_or_default()
    }

    /// Makes a release the current one. The caller should hold the lock, and then [sync](Self::sync) the directory.
    ///
    /// # Errors
    ///
    /// This will fail with `AlreadyExists` if `current` is a file rather than a symbolic link.
    pub(super) fn set_current(&self, name: &OsStr) -> io::Result<()> {
        let link = self.release_path(OsStr::new(CURRENT));
        let is_file = fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink());
        if is_file {
            // The rename would delete it, even though it may be an archive that does not have another name.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let next = self.release_path(OsStr::new(&format!(".{CURRENT}.{}.tmp", std::process::id())));
        // A process with this ID that was killed may have left it.
        let _ = fs::remove_file(&next);
        symlink(name, &next)?;
        fs::rename(&next, &link).inspect_err(|_| drop(fs::remove_file(&next)))?;
        // It is only for lists, and the switch has succeeded.
        let _ = self.record_switch(name);
        Ok(())
    }

    /// Waits until no crash of the machine can undo a change of the directory.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl Release {
    /// Reads the archive with this name.
    ///
    /// Returns `None` for files that are not an archive and do not have the suffix of one either.
    fn read(directory: &Path, name: OsString) -> Option<Release> {
        let path = directory.join(&name);
        let label = Archive::open(&path, Loading::Mapped).and_then(|archive| Label::read(&archive));
        let is_foreign = matches!(
            label,
            Err(OpenError::Foreign | OpenError::TooShort { .. } | OpenError::NotRegular { .. })
        );
        if is_foreign && path.extension() != Some(OsStr::new(SUFFIX)) {
            return None;
        }
        let metadata = fs::metadata(&path).ok()?;
        let written = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Some(Release {
            name,
            bytes: metadata.len(),
            written: written.map(|time| time.as_secs()),
            named: inode_change(&metadata),
            label,
        })
    }

    /// The date of the release. When the release was built without a date, this is the modification time of
    /// the file.
    pub(super) fn date(&self) -> Option<u64> {
        let stated = self.label.as_ref().ok().and_then(|label| label.released);
        stated.or(self.written)
    }

    fn serial(&self) -> Option<u64> {
        self.label.as_ref().ok().map(|label| label.serial)
    }

    /// Orders releases by serial, then date, then name, newest first.
    fn rank(&self) -> impl Ord {
        (Reverse(self.serial()), Reverse(self.date()), Reverse(self.name.clone()))
    }
}

/// Start and end of the names of archives that are being received.
const INCOMING: (&[u8], &[u8]) = (b".incoming-", b".part");

/// An archive that is being received. Unless it is renamed, it is removed when the value is dropped.
///
/// Its process holds a lock on the file. After a crash, the next process that receives an archive removes it.
pub(super) struct IncomingFile {
    path: PathBuf,
    /// Has the lock, and can't write. The descriptor that can is closed before the archive gets its name: otherwise, a server that looks
    /// at that moment couldn't take a lease on the archive.
    lock: File,
}

impl IncomingFile {
    /// Creates an empty file for reading and writing, and removes what crashed processes have left. The second argument proves that the
    /// caller holds the directory's lock, so that no other process creates such a file right now.
    pub(super) fn create(directory: &Path, _lock: &File) -> io::Result<(IncomingFile, File)> {
        remove_leftovers(directory)?;
        let (prefix, suffix) = INCOMING;
        let id = std::process::id().to_string();
        let name = OsString::from_vec([prefix, id.as_bytes(), suffix].concat());
        let path = directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        let lock = File::open(&path).inspect_err(|_| drop(fs::remove_file(&path)))?;
        let incoming = IncomingFile { path, lock };
        incoming.lock.try_lock()?;
        Ok((incoming, file))
    }

    /// Gives `file`, which [`create`](Self::create) has returned and the caller has synced, its final name, durably.
    pub(super) fn rename(self, file: File, path: &Path) -> io::Result<()> {
        drop(file);
        fs::rename(&self.path, path)?;
        // Otherwise a crash of the machine could undo the rename.
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        // After a rename there is no such file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether a process is receiving an archive into a directory.
pub(super) fn is_receiving(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_incoming = name.starts_with(INCOMING.0) && name.ends_with(INCOMING.1);
        is_incoming && File::open(&path).is_ok_and(|file| file.try_lock().is_err())
    })
}

/// Number of digest digits in the name of a release whose serial another one has.
pub(super) const NAME_DIGITS: usize = 8;

/// Returns `true` if the file was named by `cannery receive`. Other files belong to the operator.
pub(super) fn is_pushed_name(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".cdb") else { return false };
    let (serial, digits) =
        stem.split_once('-').map_or((stem, None), |(serial, digits)| (serial, Some(digits)));
    let is_digits =
        |digits: &str| digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    serial.bytes().all(|byte| byte.is_ascii_digit()) && !serial.is_empty() && digits.is_none_or(is_digits)
}

/// Start of the names of short files that are being written.
pub(super) const TEMPORARY_PREFIX: &str = ".tmp-";

/// Replaces a file with a single rename, after its contents are on disk.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("{TEMPORARY_PREFIX}{}-{name}", std::process::id()));
    cannery_publish::replace(path, &temporary, content)
}

/// Returns the process ID in the name of a short file that was being written.
fn temporary_owner(name: &OsStr) -> Option<u32> {
    let rest = name.to_str()?.strip_prefix(TEMPORARY_PREFIX)?;
    rest.split_once('-')?.0.parse().ok()
}

/// Returns `true` for a statement or signature that was written before its archive, which then didn't get its name.
fn is_orphan(directory: &Path, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let archive = name.strip_suffix(SIGNATURE_SUFFIX).or_else(|| name.strip_suffix(STATEMENT_SUFFIX));
    archive.is_some_and(|archive| {
        is_pushed_name(archive) && fs::symlink_metadata(directory.join(archive)).is_err()
    })
}

/// Removes what crashed processes have left. The second argument proves that the caller holds the directory's lock.
pub(super) fn clean(directory: &Path, _lock: &File) -> io::Result<()> {
    remove_leftovers(directory)
}

/// Returns what to do if a release directory, which may not exist yet, can't be written.
pub(super) fn remedy(path: &Path, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied if !path.exists() => Some(format!(
            "create it there as root for the user who publishes: `install -d -o USER {}`",
            path.display()
        )),
        io::ErrorKind::PermissionDenied => Some(format!(
            "give it to the user who publishes: `chown USER {}`, as root on that machine",
            path.display()
        )),
        io::ErrorKind::NotFound => Some("create its parent there".to_owned()),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room there".to_owned()),
        _ => None,
    }
}

/// Removes archives that no process is receiving any more, short files that weren't finished, and links that were not renamed to
/// `current`.
fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let name = file_name.as_bytes();
        let kind = entry.file_type()?;
        let is_incoming = name.starts_with(INCOMING.0) && name.ends_with(INCOMING.1) && kind.is_file();
        let is_link = name.starts_with(LINK_PREFIX) && name.ends_with(b".tmp") && kind.is_symlink();

        if kind.is_file()
            && let Some(owner) = temporary_owner(&file_name)
        {
            // Not all of them are written by processes that hold the directory's lock.
            remove_abandoned(&entry.path(), owner)?;
            continue;
        }

        // A process that is alive has locked its file. The others are only made by processes that hold the directory's lock.
        let is_left = is_link
            || kind.is_file() && is_orphan(directory, &file_name)
            || is_incoming && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_left {
            match fs::remove_file(entry.path()) {
                // Leftovers of other users are theirs to remove.
                Err(error)
                    if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Start of the names of links that become `current`.
const LINK_PREFIX: &[u8] = b".current.";

impl Label {
    fn read(archive: &Archive) -> Result<Label, OpenError> {
        let facts = archive.facts();
        let manifest = archive.manifest()?.and_then(|json| Manifest::parse(json).ok()).unwrap_or_default();
        Ok(Label {
            serial: facts.serial,
            released: manifest.released,
            digest: facts.digest.to_string(),
            paths: facts.paths,
            carried: manifest.previous.iter().map(|release| release.carried.len() as u64).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_exist_is_not_to_be_given_away() {
        let folder = tempfile::tempdir().unwrap();
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let remedy = |path: &Path| remedy(path, &denied).unwrap();
        let missing = folder.path().join("site");
        assert!(remedy(&missing).contains(&format!("install -d -o USER {}", missing.display())));
        assert!(remedy(folder.path()).contains(&format!("chown USER {}", folder.path().display())));
    }
}
