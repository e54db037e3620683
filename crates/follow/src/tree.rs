//! Walks the folder: its directories with their identities, and the metadata of its files.
//!
//! Symlinks are followed, and each directory is read once, so cycles end. Errors are passed over: a file that can't be read
//! now may be readable at the next walk.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns `true` if a path, relative to the folder, is followed; the second argument is `true` for a directory.
pub type Filter = Arc<dyn Fn(&Path, bool) -> bool + Send + Sync>;

/// The identity of a directory: device and inode.
pub(crate) type Identity = (u64, u64);

/// An entry of the folder.
pub(crate) enum Entry<'a> {
    Directory(Identity),
    File { metadata: &'a Metadata, is_link: bool },
}

/// The amount of metadata that a walk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Directories, and the targets of symlinks. Saves a system call for each other file.
    Directories,
    /// Everything.
    Files,
}

/// Returns the identity of a directory.
pub(crate) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Visits the root and everything below it that `filter` accepts.
pub(crate) fn walk(root: &Path, filter: &Filter, detail: Detail, mut visit: impl FnMut(&Path, Entry<'_>)) {
    let Ok(metadata) = fs::metadata(root) else { return };
    if !metadata.is_dir() {
        return;
    }

    let mut visited = HashSet::from([identity(&metadata)]);
    visit(root, Entry::Directory(identity(&metadata)));
    let mut pending: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let is_plain_file = !kind.is_dir() && !kind.is_symlink();
            if is_plain_file && detail == Detail::Directories {
                continue;
            }

            let path = entry.path();
            let metadata = if kind.is_symlink() { fs::metadata(&path) } else { entry.metadata() };
            let Ok(metadata) = metadata else { continue };
            let is_followed = path.strip_prefix(root).is_ok_and(|path| filter(path, metadata.is_dir()));
            if !is_followed {
                continue;
            }

            if !metadata.is_dir() {
                visit(&path, Entry::File { metadata: &metadata, is_link: kind.is_symlink() });
            } else if visited.insert(identity(&metadata)) {
                visit(&path, Entry::Directory(identity(&metadata)));
                pending.push(path);
            }
        }
    }
}
