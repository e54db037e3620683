//! Destination of a build: either a path, or an unnamed file in memory or on disk.

pub(crate) mod disk; // Files without a name on disk.
pub(crate) mod memory_file; // Files without a name in memory.
pub(crate) mod publish; // Temporary file, sync and rename.

use std::fs::File;
use std::path::Path;

use cannery_archive::{Archive, Loading};
use cannery_base::FileVersion;

use crate::destination::disk::Space;
use crate::destination::publish::Staging;
use crate::ground::diagnostic::Diagnostic;
use crate::settings::error::Error;

/// Stands in for a path in errors.
const IN_MEMORY: &str = "the archive in memory";

#[derive(Debug)]
pub(crate) enum Destination {
    /// A temporary file next to the path. It will replace the archive there once it is complete.
    Path(Staging),
    /// A file in memory that only this process has.
    Memory(Space),
    /// An unnamed file on disk, for large archives.
    Disk(Space),
}

impl Destination {
    /// Returns the path to show in errors.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Destination::Path(staging) => staging.archive_path(),
            Destination::Memory(_) => Path::new(IN_MEMORY),
            Destination::Disk(space) => space.directory(),
        }
    }

    /// Returns the version of the archive that will be replaced, if any.
    pub(crate) fn existing(&self) -> Option<FileVersion> {
        match self {
            Destination::Path(staging) => FileVersion::at(staging.archive_path()).ok(),
            Destination::Memory(_) | Destination::Disk(_) => None,
        }
    }

    /// Returns `true` if an archive of this length cannot stay in memory.
    pub(crate) fn needs_disk(&self, archive_bytes: u64) -> bool {
        matches!(self, Destination::Memory(space) if space.needs_disk(archive_bytes))
    }

    /// Creates a file on disk for an archive that will probably be too large for memory, given that its contents have
    /// `content_bytes` bytes.
    ///
    /// Returns `None` when this fails. We will try again once the archive really is too large.
    pub(crate) fn begin_on_disk(&mut self, content_bytes: u64) -> Option<File> {
        let Destination::Memory(space) = self else { return None };
        let file = space.create_on_disk(content_bytes).ok()?;
        *self = Destination::Disk(space.clone());
        Some(file)
    }

    /// Creates a file on disk for an in-memory archive that has reached this length.
    ///
    /// If this fails, `None` is returned and the archive should stay in memory.
    pub(crate) fn move_to_disk(&mut self, archive_bytes: u64) -> Option<File> {
        let Destination::Memory(space) = self else { return None };
        match space.create_on_disk(archive_bytes) {
            Ok(file) => {
                *self = Destination::Disk(space.clone());
                Some(file)
            }
            Err(error) => {
                space.abandon_disk(&error);
                None
            }
        }
    }

    /// When a large archive is in memory, returns a warning about that.
    pub(crate) fn warning(&self) -> Option<Diagnostic> {
        match self {
            Destination::Memory(space) => space.warning().cloned(),
            Destination::Path(_) | Destination::Disk(_) => None,
        }
    }

    /// Creates a file for reading and writing.
    pub(crate) fn create(&mut self) -> Result<File, Error> {
        match self {
            Destination::Path(staging) => staging.create(),
            Destination::Memory(_) => {
                memory_file::create().map_err(|error| Error::write(self.path())(error.into()))
            }
            Destination::Disk(space) => {
                space.create_on_disk(0).map_err(|error| Error::write(self.path())(error.into()))
            }
        }
    }

    /// Removes all files except for the newest, which has everything from the others.
    pub(crate) fn drop_older(&mut self) {
        match self {
            Destination::Path(staging) => staging.drop_older(),
            // Closing the last descriptor is enough.
            Destination::Memory(_) | Destination::Disk(_) => {}
        }
    }

    /// Opens `file`, the finished archive, for reading.
    pub(crate) fn open(&self, file: &File) -> Result<Archive, Error> {
        Archive::from_file(file, Loading::Mapped)
            .map_err(|source| Error::ReadBack { path: self.path().to_owned(), source })
    }

    /// Publishes `file`, the finished archive: it either replaces the old archive at the path, or is
    /// write-protected if there is no path. Returns the archive, which is open for reading only if it has a path.
    pub(crate) fn publish(self, file: File) -> Result<File, Error> {
        match self {
            Destination::Path(staging) => staging.publish(file),
            // Without a name, there is nothing to protect.
            Destination::Disk(_) => Ok(file),
            Destination::Memory(_) => {
                memory_file::protect(&file).map_err(|error| Error::write(self.path())(error.into()))?;
                Ok(file)
            }
        }
    }
}
