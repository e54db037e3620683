//! The temporary folder of `cannery serve`, and those that killed processes have left.
//!
//! A folder is locked while its process lives, so that another process can tell. Never touches a folder of another
//! user, nor one that another program made.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How the names of the folders begin.
const PREFIX: &str = "cannery-serve-";

/// How many folders are made before it is given up, if other processes take each for a stale one.
const ATTEMPTS_MAX: u32 = 10;

/// A temporary folder, removed when it is dropped.
pub(super) struct Workshop {
    folder: TempDir,
    /// Holds the lock.
    _lock: File,
}

impl Workshop {
    /// Makes a folder, and removes those whose processes are gone.
    pub(super) fn open() -> io::Result<Workshop> {
        let parent = std::env::temp_dir();
        remove_stale(&parent);
        for _ in 0..ATTEMPTS_MAX {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent)?;
            let lock = File::open(folder.path())?;
            // Another process may have taken it for a stale one before it was locked.
            if lock.try_lock().is_ok() && is_same(&lock, folder.path()) {
                return Ok(Workshop { folder, _lock: lock });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

fn remove_stale(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        let Ok(lock) = File::open(entry.path()) else { continue };
        if is_ours && lock.try_lock().is_ok() && is_same(&lock, &entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether what was opened still has this path, and is no link's target.
fn is_same(opened: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let here = fs::symlink_metadata(path).map(identity);
    opened.metadata().map(identity).is_ok_and(|opened| here.is_ok_and(|here| here == opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_folders_are_removed_and_living_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(format!("{PREFIX}stale"));
        let living = parent.path().join(format!("{PREFIX}living"));
        let foreign = parent.path().join("cannery-notes");
        for folder in [&stale, &living, &foreign] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("site.cdb"), "").unwrap();
        }
        let lock = File::open(&living).unwrap();
        lock.try_lock().unwrap();
        remove_stale(parent.path());
        assert!(!stale.exists());
        assert!(living.exists() && foreign.exists());
    }
}
