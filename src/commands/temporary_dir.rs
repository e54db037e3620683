//! The temporary directory of `cannery serve`, and the removal of those that killed processes left.
//!
//! A process locks its directory as long as it runs, so other processes can see that it is in use. Never touches a
//! directory of another user or of another program.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The beginning of the directories' names.
const PREFIX: &str = "cannery-serve-";

/// The number of directories that are created if other processes take each one for stale before it is locked.
const ATTEMPTS_MAX: u32 = 10;

/// A temporary directory, removed when it is dropped.
pub(super) struct TemporaryDir {
    directory: TempDir,
    /// Holds the lock.
    _lock: File,
}

impl TemporaryDir {
    /// Creates a directory, and removes those that exited processes left.
    pub(super) fn create() -> io::Result<TemporaryDir> {
        let parent = std::env::temp_dir();
        remove_stale(&parent);
        for _ in 0..ATTEMPTS_MAX {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent)?;
            let lock = File::open(directory.path())?;
            // Another process may have removed it as stale before it was locked.
            if lock.try_lock().is_ok() && is_same(&lock, directory.path()) {
                return Ok(TemporaryDir { directory, _lock: lock });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

/// Removes the directories of this user that no process has locked.
fn remove_stale(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        let Ok(lock) = File::open(entry.path()) else { continue };
        if is_ours && lock.try_lock().is_ok() && is_same(&lock, &entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns `true` if the open directory still has this path. The path may not be a symbolic link.
fn is_same(opened: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let here = fs::symlink_metadata(path).map(identity);
    opened.metadata().map(identity).is_ok_and(|opened| here.is_ok_and(|here| here == opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stale_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(format!("{PREFIX}stale"));
        let locked = parent.path().join(format!("{PREFIX}locked"));
        let foreign = parent.path().join("cannery-notes");
        for directory in [&stale, &locked, &foreign] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("site.cdb"), "").unwrap();
        }
        let lock = File::open(&locked).unwrap();
        lock.try_lock().unwrap();
        remove_stale(parent.path());
        assert!(!stale.exists());
        assert!(locked.exists() && foreign.exists());
    }
}
