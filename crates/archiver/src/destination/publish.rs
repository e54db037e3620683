//! Atomically replaces an archive, or a program with an archive, by means of a temporary file, fsync, rename, and fsync
//! of the directory.
//!
//! The temporary file is created in the same directory and will be removed when the build fails or is interrupted. It is
//! also locked for the duration of the build. This allows the next build in the same directory to remove any files left
//! behind by builds that were killed, regardless of the names of their archives.
//!
//! No descriptor of ours can write to the file any more when it gets its name. A server that looks at that moment couldn't take a lease
//! on it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::ground::temporary::Temporary;
use crate::settings::error::Error;

/// Mode of new archives, subject to the umask.
const MODE: u32 = 0o644;

/// Suffix of temporary files. No other program uses it.
const SUFFIX: &[u8] = b".cannery.tmp";

/// Maximum number of names to try for a temporary file.
const NAMES_MAX: u32 = 100;

/// Replaces the file at `path` with whatever `write` writes, either completely or not at all. If the file already exists, its
/// permissions are kept. Otherwise, it is created with `mode`, subject to the umask.
///
/// # Errors
///
/// Returns an error if the path does not name a file or writing has failed. If so, the old file is
/// left unchanged.
pub fn replace_file(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), Error> {
    let mut staging = Staging { mode, ..Staging::beside(path)? };
    let file = staging.create()?;
    write(&file).map_err(|error| Error::write(&staging.archive)(error.into()))?;
    staging.publish(file).map(drop)
}

/// Holds a build's output until the archive is complete.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Path of the archive. Symlinks are resolved.
    archive: PathBuf,
    /// Mode of a new file, subject to the umask.
    mode: u32,
    /// Temporary files that exist right now.
    temporary: Vec<Locked>,
}

/// A temporary file, and a descriptor that can only read it and has its lock. So the lock outlasts the descriptor for writing.
#[derive(Debug)]
struct Locked {
    temporary: Temporary,
    lock: File,
}

impl Staging {
    /// Prepares to replace the archive at `path`.
    ///
    /// This also removes temporary files left behind by builds that were killed.
    pub(crate) fn beside(path: &Path) -> Result<Staging, Error> {
        // If it's a symlink, keep it and replace its target.
        let archive = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&archive) {
            Ok(found) if found.is_dir() => {
                return Err(Error::usage(&archive, "is a folder; name a file"));
            }
            Ok(found) if !found.is_file() => {
                return Err(Error::usage(
                    &archive,
                    "is not a regular file, so it cannot be replaced by one; name another file",
                ));
            }
            Ok(_) | Err(_) => {}
        }
        if archive.file_name().is_none() {
            return Err(Error::usage(&archive, "does not name a file; name one, such as `site.cdb`"));
        }

        let staging = Staging { archive, mode: MODE, temporary: Vec::new() };
        staging.remove_stale();
        Ok(staging)
    }

    pub(super) fn archive_path(&self) -> &Path {
        &self.archive
    }

    /// Creates a temporary file for reading and writing.
    pub(super) fn create(&mut self) -> Result<File, Error> {
        self.create_locked().map_err(|error| Error::write(&self.archive)(error.into()))
    }

    fn create_locked(&mut self) -> io::Result<File> {
        for serial in 0..NAMES_MAX {
            let path = self.folder().join(self.temporary_name(serial));
            let (temporary, file) = match Temporary::create(path.clone(), self.mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };

            // Before the file was locked, another build may have removed it, so check that this is still
            // our file.
            let lock = File::open(&path).ok().filter(|lock| lock.try_lock().is_ok());
            let is_ours = fs::metadata(&path).is_ok_and(|found| is_same_file(&found, &file));
            if let Some(lock) = lock.filter(|_| is_ours) {
                self.temporary.push(Locked { temporary, lock });
                return Ok(file);
            }
            // The name belongs to another build now, so we must not remove it.
            temporary.forget();
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes all temporary files except for the newest, which has everything from the others.
    pub(super) fn drop_older(&mut self) {
        let newest = self.temporary.pop();
        self.temporary.clear();
        self.temporary.extend(newest);
    }

    /// Turns `file`, the newest temporary file, into the archive. Returns it, open for reading only.
    pub(super) fn publish(mut self, file: File) -> Result<File, Error> {
        self.replace_archive(file).map_err(|error| Error::write(&self.archive)(error.into()))
    }

    fn replace_archive(&mut self, file: File) -> io::Result<File> {
        if let Ok(old) = fs::metadata(&self.archive) {
            file.set_permissions(old.permissions())?;
        }

        file.sync_all()?;
        let Locked { temporary, lock } = self.temporary.pop().ok_or(io::ErrorKind::NotFound)?;
        // Servers may look as soon as the file has its name.
        drop(file);
        temporary.persist(&self.archive)?;
        // Without this, a crash might bring back the old directory entry.
        File::open(self.folder())?.sync_all()?;
        lock.unlock()?;
        Ok(lock)
    }

    fn folder(&self) -> &Path {
        match self.archive.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn name(&self) -> &OsStr {
        self.archive.file_name().unwrap_or_default()
    }

    /// Returns a temporary file name, which has the form `.NAME.PID.SERIAL.cannery.tmp`.
    fn temporary_name(&self, serial: u32) -> OsString {
        let mut name = OsString::from(".");
        name.push(self.name());
        name.push(format!(".{}.{serial}", std::process::id()));
        name.push(OsStr::from_bytes(SUFFIX));
        name
    }

    /// Removes temporary files that are not locked by any process.
    ///
    /// Errors are ignored, as leftover files do not cause any harm.
    fn remove_stale(&self) {
        let Ok(entries) = fs::read_dir(self.folder()) else { return };
        for entry in entries.flatten().filter(|entry| is_temporary_name(&entry.file_name())) {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_stale = is_file && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if is_stale {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns `true` if this is the temporary file of some archive, i.e. if there are two numbers before the suffix.
fn is_temporary_name(name: &OsStr) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let Some(numbered) = name.as_bytes().strip_prefix(b".").and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return false;
    };
    let mut parts = numbered.rsplit(|byte| *byte == b'.');
    parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number) && parts.next().is_some()
}

fn is_same_file(found: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|opened| (opened.dev(), opened.ino()) == (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests;
