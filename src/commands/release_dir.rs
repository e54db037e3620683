//! A folder of archives: which releases it holds, which one is current, and another one made current.
//!
//! The link `current` points at an archive beside it. Turning it is one rename, so whoever opens it finds the
//! one release or the other. Never writes an archive, and never deletes one.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cannery_archive::{Archive, Loading, OpenError};
use serde::Deserialize;

/// The name of the link.
pub(super) const CURRENT: &str = "current";

/// The suffix of names that are expected to be archives: such a file is listed whatever it holds.
const SUFFIX: &str = "cdb";

/// A folder of archives.
pub(super) struct ReleaseDir {
    pub(super) folder: PathBuf,
    /// The newest first; those that cannot be opened last.
    pub(super) releases: Vec<Release>,
    /// The name that `current` leads to, if it is the name of a file of this folder.
    pub(super) current: Option<OsString>,
}

/// An archive of the folder.
pub(super) struct Release {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// When the file was last written, in seconds since 1970.
    pub(super) written: Option<u64>,
    /// What it says of itself, or why it cannot be opened.
    pub(super) label: Result<Label, OpenError>,
}

/// What an archive says of itself.
pub(super) struct Label {
    pub(super) serial: u64,
    /// When it was published, in seconds since 1970, if it was built with a date.
    pub(super) released: Option<u64>,
    pub(super) digest: String,
    pub(super) paths: u64,
    /// How many of them were carried forward from earlier releases.
    pub(super) carried: u64,
}

/// What is read of a manifest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    released: Option<u64>,
    previous: Vec<Earlier>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Earlier {
    carried: Vec<String>,
}

impl ReleaseDir {
    /// Looks what is there. Opens each archive; reads none whole.
    pub(super) fn look(folder: &Path) -> io::Result<ReleaseDir> {
        let mut releases = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // What is being copied or built beside its place has a hidden name.
            let is_hidden = entry.file_name().as_bytes().starts_with(b".");
            if entry.file_type()?.is_file() && !is_hidden {
                releases.extend(Release::read(folder, entry.file_name()));
            }
        }
        releases.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let target = fs::canonicalize(folder.join(CURRENT)).ok();
        let is_current = |release: &&Release| {
            target.is_some() && fs::canonicalize(folder.join(&release.name)).ok() == target
        };
        let current = releases.iter().find(is_current).map(|release| release.name.clone());
        Ok(ReleaseDir { folder: folder.to_owned(), releases, current })
    }

    /// Whether a release is the current one.
    pub(super) fn is_current(&self, release: &Release) -> bool {
        self.current.as_ref() == Some(&release.name)
    }

    /// The release before the current one: the next in order that can be opened.
    pub(super) fn before_current(&self) -> Option<&Release> {
        let current = self.releases.iter().position(|release| self.is_current(release))?;
        self.releases[current + 1..].iter().find(|release| release.label.is_ok())
    }

    /// Where a release lies.
    pub(super) fn path(&self, name: &OsStr) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a release the current one.
    pub(super) fn turn(&self, name: &OsStr) -> io::Result<()> {
        let link = self.path(OsStr::new(CURRENT));
        let is_file = fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink());
        if is_file {
            // Renaming over it would destroy the only name of somebody's archive.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let next = self.path(OsStr::new(&format!(".{CURRENT}.{}.tmp", std::process::id())));
        // Only a dead process of the same number can have left it.
        let _ = fs::remove_file(&next);
        symlink(name, &next)?;
        fs::rename(&next, &link).inspect_err(|_| drop(fs::remove_file(&next)))?;
        // Without this a crash could bring the old release back.
        File::open(&self.folder)?.sync_all()
    }
}

impl Release {
    /// The archive of this name; nothing for a file that is none and does not pretend to be one.
    fn read(folder: &Path, name: OsString) -> Option<Release> {
        let path = folder.join(&name);
        let label = Archive::open(&path, Loading::Mapped).and_then(|archive| Label::of(&archive));
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

    /// When it was published: as it says, else when its file was written.
    pub(super) fn when(&self) -> Option<u64> {
        let stated = self.label.as_ref().ok().and_then(|label| label.released);
        stated.or(self.written)
    }

    /// Serials decide, then dates, then names.
    fn rank(&self) -> impl Ord {
        let serial = self.label.as_ref().ok().map(|label| label.serial);
        (Reverse(serial), Reverse(self.when()), Reverse(self.name.clone()))
    }
}

impl Label {
    fn of(archive: &Archive) -> Result<Label, OpenError> {
        let facts = archive.facts();
        let manifest = archive.manifest()?.and_then(|json| serde_json::from_slice(json).ok());
        let manifest: Manifest = manifest.unwrap_or_default();
        Ok(Label {
            serial: facts.serial,
            released: manifest.released,
            digest: facts.digest.to_string(),
            paths: facts.paths,
            carried: manifest.previous.iter().map(|earlier| earlier.carried.len() as u64).sum(),
        })
    }
}
