//! What tells one state of a file from another, without reading it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileId {
    pub(crate) fn of(path: &Path) -> io::Result<FileId> {
        let metadata: Metadata = path.metadata()?;
        Ok(FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// When the content was last modified: seconds since 1970, and nanoseconds.
    pub(crate) fn modified(&self) -> (i64, i64) {
        self.modified
    }

    pub(crate) fn is_same_file(&self, other: &FileId) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
