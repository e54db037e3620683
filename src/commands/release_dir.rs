//! A release directory: its archives, and the symbolic link `current` to the one that is served.
//!
//! The link is replaced by one rename, so a process that opens it gets either the old release or the new one. Never writes
//! or deletes an archive.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cannery_archive::{Archive, Loading, OpenError};
use cannery_archiver::manifest::Manifest;

/// The name of the symbolic link.
pub(super) const CURRENT: &str = "current";

/// The suffix of archives. A file with it is listed even if it cannot be opened.
const SUFFIX: &str = "cdb";

/// A directory of archives.
pub(super) struct ReleaseDir {
    pub(super) path: PathBuf,
    /// The releases, newest first. Those that cannot be opened are last.
    pub(super) releases: Vec<Release>,
    /// The name of the release that `current` leads to, or `None` if it leads out of this directory, or nowhere.
    pub(super) current: Option<OsString>,
}

/// An archive of the directory.
pub(super) struct Release {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// The modification time of the file, in seconds since 1970.
    pub(super) written: Option<u64>,
    /// Facts from the archive, or why it cannot be opened.
    pub(super) label: Result<Label, OpenError>,
}

/// Facts that an archive holds about itself.
pub(super) struct Label {
    pub(super) serial: u64,
    /// The date of the release in seconds since 1970, or `None` if it was built without a date.
    pub(super) released: Option<u64>,
    pub(super) digest: String,
    pub(super) paths: u64,
    /// The number of paths that were carried forward from earlier releases.
    pub(super) carried: u64,
}

impl ReleaseDir {
    /// Reads the directory, and opens each archive without reading all of it.
    pub(super) fn read(path: &Path) -> io::Result<ReleaseDir> {
        let mut releases = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // Files that are being copied or built have hidden names. `current` should be a link, and is never a release.
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
        Ok(ReleaseDir { path: path.to_owned(), releases, current })
    }

    /// Returns `true` if the release is the current one.
    pub(super) fn is_current(&self, release: &Release) -> bool {
        self.current.as_ref() == Some(&release.name)
    }

    /// Returns the newest release before the current one that can be opened.
    pub(super) fn before_current(&self) -> Option<&Release> {
        let current = self.releases.iter().position(|release| self.is_current(release))?;
        self.releases[current + 1..].iter().find(|release| release.label.is_ok())
    }

    /// Returns the path of a release.
    pub(super) fn release_path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a release the current one.
    ///
    /// # Errors
    /// `AlreadyExists` if `current` is a file and no symbolic link.
    pub(super) fn set_current(&self, name: &OsStr) -> io::Result<()> {
        let link = self.release_path(OsStr::new(CURRENT));
        let is_file = fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink());
        if is_file {
            // The rename would delete it, and it may be an archive without another name.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let next = self.release_path(OsStr::new(&format!(".{CURRENT}.{}.tmp", std::process::id())));
        // A process with this ID that was killed may have left it.
        let _ = fs::remove_file(&next);
        symlink(name, &next)?;
        fs::rename(&next, &link).inspect_err(|_| drop(fs::remove_file(&next)))?;
        // Otherwise a crash of the machine could undo the rename.
        File::open(&self.path)?.sync_all()
    }
}

impl Release {
    /// Reads the archive of this name. Returns `None` if the file is not an archive and does not have the suffix of one.
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
        Some(Release { name, bytes: metadata.len(), written: written.map(|time| time.as_secs()), label })
    }

    /// Returns the date of the release. If it was built without one, it is the modification time of the file.
    pub(super) fn date(&self) -> Option<u64> {
        let stated = self.label.as_ref().ok().and_then(|label| label.released);
        stated.or(self.written)
    }

    /// Orders releases by serial, then date, then name, newest first.
    fn rank(&self) -> impl Ord {
        let serial = self.label.as_ref().ok().map(|label| label.serial);
        (Reverse(serial), Reverse(self.date()), Reverse(self.name.clone()))
    }
}

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
