//! The destination of a build: a path, or memory.

use std::fs::{self, File};
use std::path::Path;

use cannery_archive::{Archive, Loading};
use cannery_base::FileVersion;

use crate::error::Error;
use crate::memory_file;
use crate::publish::Staging;

/// Stands for the path in errors.
const IN_MEMORY: &str = "the archive in memory";

/// Where a build writes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A temporary file next to the path, which replaces the archive there when it is complete.
    Path(Staging),
    /// A file in memory, for this process alone.
    Memory,
}

impl Destination {
    /// Returns the archive's path, for errors.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Destination::Path(staging) => staging.archive_path(),
            Destination::Memory => Path::new(IN_MEMORY),
        }
    }

    /// Returns the version of the archive that will be replaced, if there is one.
    pub(crate) fn existing(&self) -> Option<FileVersion> {
        match self {
            Destination::Path(staging) => {
                fs::metadata(staging.archive_path()).ok().map(|found| FileVersion::of(&found))
            }
            Destination::Memory => None,
        }
    }

    /// Creates a file, open for reading and writing.
    pub(crate) fn create(&mut self) -> Result<File, Error> {
        match self {
            Destination::Path(staging) => staging.create(),
            Destination::Memory => {
                memory_file::create().map_err(|error| Error::write(self.path())(error.into()))
            }
        }
    }

    /// Removes all files but the newest, into which the others have been copied.
    pub(crate) fn drop_older(&mut self) {
        match self {
            Destination::Path(staging) => staging.drop_older(),
            // The last descriptor of the file is closed.
            Destination::Memory => {}
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
            Destination::Memory => {
                memory_file::protect(file).map_err(|error| Error::write(self.path())(error.into()))
            }
        }
    }
}
