//! Identifies files and their contents by metadata alone.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identifies a version of a file. If a program modifies the file, its size or modification time will usually change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// The device of `inode`.
    pub device: u64,
    /// The inode. Hard links share it.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970. May be negative.
    pub modified_ns: i128,
}

impl FileVersion {
    /// Returns the version of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> FileVersion {
        FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Returns the version of the file at a path, following symbolic links.
    ///
    /// # Errors
    /// Returns an error if the path leads to no file, or can't be followed.
    pub fn at(path: &Path) -> io::Result<FileVersion> {
        fs::metadata(path).map(|metadata| FileVersion::of(&metadata))
    }

    /// Returns `true` if both are versions of the same inode.
    #[must_use]
    pub fn is_same_file(&self, other: &FileVersion) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A version of a file along with the time of its last inode change.
///
/// Programs can set the modification time, but not this one. If the stamps are equal, we can rely on the content being equal too.
/// The reverse is *not* true: the inode also changes with a new hard link, a rename, or new permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Identity, size and modification time.
    pub version: FileVersion,
    /// Inode change time in nanoseconds since 1970. May be negative.
    pub changed_ns: i128,
}

impl FileStamp {
    /// Returns the stamp of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> FileStamp {
        FileStamp {
            version: FileVersion::of(metadata),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}
