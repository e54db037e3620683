//! Identity of a file version, from its metadata alone.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identifies a version of a file: its inode, size and modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileId {
    /// Reads the identity of the file at `path`.
    pub(crate) fn of(path: &Path) -> io::Result<FileId> {
        let metadata: Metadata = path.metadata()?;
        Ok(FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Returns the time of the last modification: seconds since 1970, and nanoseconds.
    pub(super) fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// Returns `true` if both are versions of the same inode.
    pub(crate) fn is_same_file(&self, other: &FileId) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
