//! The destination of a build: a path, or a file without a name in memory or on disk.

pub(crate) mod disk; // Files without a name on disk.
pub(crate) mod memory_file; // Files without a name in memory.
pub(crate) mod publish; // Temporary file, sync and rename.

use std::fs::{self, File};
use std::path::Path;

use cannery_archive::{Archive, Loading};
use cannery_base::FileVersion;

use crate::destination::disk::Space;
use crate::destination::publish::Staging;
use crate::ground::diagnostic::Diagnostic;
use crate::settings::error::Error;

/// Stands for the path in errors.
const IN_MEMORY: &str = "the archive in memory";

/// Where a build writes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A temporary file next to the path, which replaces the archive there when it is complete.
    Path(Staging),
    /// A file in memory, for this process alone.
    Memory(Space),
    /// A file on disk without a name, because the archive is large.
    Disk(Space),
}

impl Destination {
    /// Returns the archive's path, for errors.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Destination::Path(staging) => staging.archive_path(),
            Destination::Memory(_) => Path::new(IN_MEMORY),
            Destination::Disk(space) => space.directory(),
        }
    }

    /// Returns the version of the archive that will be replaced, if there is one.
    pub(crate) fn existing(&self) -> Option<FileVersion> {
        match self {
            Destination::Path(staging) => {
                fs::metadata(staging.archive_path()).ok().map(|found| FileVersion::of(&found))
            }
            Destination::Memory(_) | Destination::Disk(_) => None,
        }
    }

    /// Returns `true` if an archive of this length must leave memory.
    pub(crate) fn needs_disk(&self, archive_bytes: u64) -> bool {
        matches!(self, Destination::Memory(space) if space.needs_disk(archive_bytes))
    }

    /// Creates a file on disk for an archive that is likely to be too large for memory, with `content_bytes` bytes of contents.
    /// Returns `None` if there can be none yet: there is another attempt if the archive is too large.
    pub(crate) fn begin_on_disk(&mut self, content_bytes: u64) -> Option<File> {
        let Destination::Memory(space) = self else { return None };
        let file = space.create_on_disk(content_bytes).ok()?;
        *self = Destination::Disk(space.clone());
        Some(file)
    }

    /// Creates a file on disk for an archive of this length, which is in memory so far. Returns `None` if there can be none:
    /// the archive stays in memory.
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

    /// Returns the warning that a large archive is in memory, if it is.
    pub(crate) fn warning(&self) -> Option<Diagnostic> {
        match self {
            Destination::Memory(space) => space.warning().cloned(),
            Destination::Path(_) | Destination::Disk(_) => None,
        }
    }

    /// Creates a file, open for reading and writing.
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

    /// Removes all files but the newest, into which the others have been copied.
    pub(crate) fn drop_older(&mut self) {
        match self {
            Destination::Path(staging) => staging.drop_older(),
            // The last descriptor of the file is closed.
            Destination::Memory(_) | Destination::Disk(_) => {}
        }
    }

    /// Opens `file`, the finished archive, to read it.
    pub(crate) fn open(&self, file: &File) -> Result<Archive, Error> {
        Archive::from_file(file, Loading::Mapped)
            .map_err(|source| Error::ReadBack { path: self.path().to_owned(), source })
    }

    /// Publishes `file`, the finished archive: makes it the archive at the path, or protects it against changes.
    pub(crate) fn publish(self, file: &File) -> Result<(), Error> {
        match self {
            Destination::Path(staging) => staging.publish(file),
            // It has no name.
            Destination::Disk(_) => Ok(()),
            Destination::Memory(_) => {
                memory_file::protect(file).map_err(|error| Error::write(self.path())(error.into()))
            }
        }
    }
}
