//! Opens earlier releases and decides which of them are still carried forward.
//!
//! The manifest of an archive lists the earlier releases from which it carries files, so knowing the previous archive is enough to
//! know all of them. The age of a release is computed from dates in the archives rather than from the clock.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, Loading, OpenError};

use crate::ground::diagnostic::Diagnostic;
use crate::releases::manifest::{Manifest, Release};
use crate::settings::error::{Error, PreviousError};
use crate::settings::options::Options;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Name of the link to the current archive in a release directory.
const CURRENT: &str = "current";

/// File name extension of archives.
const SUFFIX: &str = "cdb";

/// Sort key for releases, newest first.
///
/// If serials are equal, the digest decides. This way, the order of flags does not matter.
pub(super) type Rank = (std::cmp::Reverse<u64>, String);

fn rank(release: &Release) -> Rank {
    (std::cmp::Reverse(release.serial), release.digest.clone())
}

/// An earlier release's archive.
pub(super) struct Earlier {
    pub(super) path: PathBuf,
    pub(super) archive: Archive,
    /// Rank of the release itself.
    pub(super) own: Rank,
    /// For each carried path, the rank of the last release that contained it.
    pub(super) carried: HashMap<String, Rank>,
    /// See [`Manifest::mutable`].
    pub(super) mutable: Vec<String>,
    /// Whether all bytes have been compared with the digest.
    is_verified: bool,
}

/// When to compare an archive with its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verification {
    /// Right after opening it.
    Now,
    /// Later, and only if we take files from it.
    IfUsed,
}

fn failed(path: &Path) -> impl FnOnce(PreviousError) -> Error {
    let path = path.to_owned();
    |source| Error::Previous { path, source }
}

/// Returns `true` if the path is a link named `current` that does not exist yet, in a directory
/// without archives.
fn is_in_empty_release_dir(path: &Path) -> bool {
    let is_missing = fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    is_missing
        && path.file_name() == Some(OsStr::new(CURRENT))
        && archives_of(directory).is_ok_and(|archives| archives.is_empty())
}

/// Returns all archives in a directory, sorted, including those that do not have the usual extension.
fn archives_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Files with hidden names are still being copied or built.
        let is_hidden = entry.file_name().as_bytes().starts_with(b".");
        if is_hidden || !entry.file_type()?.is_file() {
            continue;
        }

        let path = entry.path();
        let is_named = path.extension() == Some(OsStr::new(SUFFIX));
        let is_foreign = || {
            let opened = Archive::open(&path, Loading::Mapped);
            matches!(opened, Err(OpenError::Foreign | OpenError::TooShort { .. }))
        };
        if is_named || !is_foreign() {
            archives.push(path);
        }
    }

    archives.sort();
    Ok(archives)
}

/// Earlier archives used by a build.
#[derive(Default)]
pub(crate) struct Previous {
    pub(super) archives: Vec<Earlier>,
    /// Releases within the limits, the newest first.
    pub(super) releases: BTreeMap<Rank, Release>,
    serial_max: Option<u64>,
    /// Notes about release directories.
    pub(crate) notes: Vec<Diagnostic>,
}

impl Previous {
    /// Opens all earlier archives and drops releases beyond the limits.
    pub(crate) fn open(options: &Options) -> Result<Previous, Error> {
        let mut previous = Previous::default();
        let own = fs::canonicalize(&options.archive).ok();
        for path in &options.previous {
            if path.is_dir() || is_in_empty_release_dir(path) {
                previous.add_directory(path, own.as_deref())?;
            } else if *path == options.archive && !path.exists() {
                // On the first deploy, there is no archive yet that could be replaced by this build.
                let message = "doesn't exist yet: this is the first release";
                previous.notes.push(Diagnostic::note(path.as_os_str().as_bytes(), "first-release", message));
            } else {
                previous.add(path, Verification::Now).map_err(failed(path))?;
            }
        }

        // A new release must have a higher serial than all others.
        previous.serial_max = previous.releases.values().map(|release| release.serial).max();
        if let (Some(serial), Some(newest)) = (options.serial, previous.serial_max)
            && serial <= newest
        {
            return Err(Error::Serial { serial, newest });
        }

        previous.refuse_existing_serial(options, own.as_deref())?;
        previous.apply_limits(options);
        previous.drop_unneeded()?;
        Ok(previous)
    }

    /// Adds all archives in a release directory, except for the one that will be replaced by this
    /// build.
    fn add_directory(&mut self, path: &Path, own: Option<&Path>) -> Result<(), Error> {
        let directory = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let archives = archives_of(directory).map_err(|error| failed(directory)(error.into()))?;
        if archives.is_empty() {
            let message = "holds no archive yet: this is the first release";
            self.notes.push(Diagnostic::note_that(
                directory.as_os_str().as_bytes(),
                "first-release",
                message,
            ));
        }
        for archive in archives {
            if fs::canonicalize(&archive).ok().as_deref() != own {
                self.add(&archive, Verification::IfUsed).map_err(failed(&archive))?;
            }
        }
        Ok(())
    }

    /// Checks that no other archive in this build's release directory has the same serial.
    ///
    /// We should only do this when the serial was chosen with others in mind. Builds without `--previous` and
    /// `--serial` do not number releases.
    fn refuse_existing_serial(&self, options: &Options, own: Option<&Path>) -> Result<(), Error> {
        let directory = match options.archive.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let is_release_directory = directory.join(CURRENT).is_symlink();
        if !is_release_directory || options.previous.is_empty() && options.serial.is_none() {
            return Ok(());
        }

        let serial = self.serial(options);
        for path in archives_of(directory).unwrap_or_default() {
            let has_serial =
                Archive::open(&path, Loading::Mapped).is_ok_and(|archive| archive.facts().serial == serial);
            if has_serial && fs::canonicalize(&path).ok().as_deref() != own {
                return Err(Error::SerialExists { serial, path, directory: directory.to_owned() });
            }
        }
        Ok(())
    }

    /// Drops archives from which no files are carried, and verifies all others.
    fn drop_unneeded(&mut self) -> Result<(), Error> {
        let releases = &self.releases;
        self.archives.retain(|earlier| earlier.is_verified || releases.contains_key(&earlier.own));
        for earlier in &mut self.archives {
            if !earlier.is_verified {
                earlier.archive.verify(|_| ()).map_err(|error| failed(&earlier.path)(error.into()))?;
                earlier.is_verified = true;
            }
        }
        Ok(())
    }

    /// Determines the serial of this release. If none was given, this is the serial of the
    /// newest earlier release plus one.
    pub(crate) fn serial(&self, options: &Options) -> u64 {
        options.serial.unwrap_or_else(|| self.serial_max.map_or(1, |newest| newest.saturating_add(1)))
    }

    /// Adds an archive, as well as any releases from which it carries files.
    fn add(&mut self, path: &Path, verification: Verification) -> Result<(), PreviousError> {
        let archive = Archive::open(path, Loading::Mapped)?;
        // Carried files will be trusted for as long as this release exists, so the archive should be
        // verified first.
        let is_verified = verification == Verification::Now;
        if is_verified {
            archive.verify(|_| ())?;
        }

        let manifest = archive.manifest()?.map(Manifest::parse).transpose()?.unwrap_or_default();
        let facts = archive.facts();
        let digest = facts.digest.to_string();
        let own = Release { serial: facts.serial, digest, released: manifest.released, carried: Vec::new() };

        let mut carried = HashMap::new();
        for mut release in manifest.previous {
            let paths = std::mem::take(&mut release.carried);
            carried.extend(paths.into_iter().map(|path| (path, rank(&release))));
            self.releases.entry(rank(&release)).or_insert(release);
        }

        let (path, mutable, rank_of_own) = (path.to_owned(), manifest.mutable, rank(&own));
        self.archives.push(Earlier { path, archive, own: rank_of_own, carried, mutable, is_verified });
        self.releases.insert(rank(&own), own);
        Ok(())
    }

    /// Drops releases that exceed the maximum number or age.
    ///
    /// A release starts to age when the next one replaces it, because until then clients are able to load its pages. The age
    /// is unknown if its successor has no date.
    fn apply_limits(&mut self, options: &Options) {
        let age_max = options.previous_age_days.map(|days| u64::from(days) * SECONDS_PER_DAY);
        let mut replaced = options.released;
        let mut too_old = false;
        let mut left = options.previous_releases;
        self.releases.retain(|_, release| {
            let age = options.released.zip(replaced).map(|(now, then)| now.saturating_sub(then));
            too_old |= age.zip(age_max).is_some_and(|(age, max)| age > max);
            replaced = release.released;
            let kept = left > 0 && !too_old;
            left = left.saturating_sub(1);
            kept
        });
    }
}

#[cfg(test)]
mod tests;
