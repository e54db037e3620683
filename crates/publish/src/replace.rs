//! Short files that are replaced with a single rename, and what killed processes leave of that.
//!
//! The new content is written into a temporary file, which its process has locked, and whose name has the process ID. A later
//! process removes it once its owner is gone: the lock is free, and no process has that ID. An ID can be used again, so a free lock
//! is enough for a file that is an hour old. On a file system without locks, only the ID and the age count.
//!
//! On a shared disk, another machine may set the times of files, and its clock or ours may be wrong. So ages are differences between
//! two times of the file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age from which on the ID in a name may be that of another process.
const REUSE_AGE: Duration = Duration::from_secs(3600);

/// Age from which on a file is removed whose lock can't be tested.
const UNLOCKED_AGE: Duration = Duration::from_secs(24 * 3600);

/// Replaces `path` after the content is on disk. `temporary` must be in the same folder, and have our process ID in its name.
///
/// # Errors
/// Returns an error if the file can't be written. The old one is still there then.
pub fn replace(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    let written = create(temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    });
    written.inspect_err(|_| drop(fs::remove_file(temporary)))
}

/// Creates an empty file, and locks it if the file system has locks.
fn create(path: &Path) -> io::Result<File> {
    // One that a process with our ID has left.
    let _ = fs::remove_file(path);
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Another process may hold the lock for a moment, while it tests whether the file is abandoned. It finds our ID then.
    let _ = file.try_lock();
    Ok(file)
}

/// Removes a temporary file whose owner is gone. Returns whether it was removed.
///
/// # Errors
/// Returns an error if it can't be removed, for example because it belongs to another user.
pub fn remove_abandoned(path: &Path, owner: u32) -> io::Result<bool> {
    let Ok(file) = File::open(path) else { return Ok(false) };
    let modified = file.metadata()?.modified()?;
    let is_older = |age: Duration| {
        let now = file_system_time(&sibling(path, owner));
        now.is_ok_and(|now| now.duration_since(modified).is_ok_and(|elapsed| elapsed >= age))
    };
    let is_abandoned = match file.try_lock() {
        Ok(()) => !is_alive(owner) || is_older(REUSE_AGE),
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => !is_alive(owner) && is_older(UNLOCKED_AGE),
    };
    if !is_abandoned {
        return Ok(false);
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        // Another process was faster, or the file belongs to another user, who will remove it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns the name of a temporary file of ours, beside the one of another process.
fn sibling(path: &Path, owner: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(name.replacen(&format!("{owner}-"), &format!("{}-time-", std::process::id()), 1))
}

/// Returns the current time of a file system, as it is given to changed inodes. `temporary` is a name as in [`replace()`]; the file is
/// removed again.
///
/// # Errors
/// Returns an error if the file can't be created.
pub fn file_system_time(temporary: &Path) -> io::Result<SystemTime> {
    let metadata = create(temporary).and_then(|file| file.metadata());
    let _ = fs::remove_file(temporary);
    inode_change(&metadata?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the time of the inode's last change, such as a rename, as its file system says it.
#[must_use]
pub fn inode_change(metadata: &fs::Metadata) -> Option<SystemTime> {
    let (seconds, nanoseconds) = (metadata.ctime().try_into().ok()?, metadata.ctime_nsec().try_into().ok()?);
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

/// Whether a process of this machine has this ID. Without `/proc`, only the lock tells.
fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ID that Linux gives no process.
    const NOBODY: u32 = u32::MAX;

    #[test]
    fn files_are_replaced_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, temporary) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&temporary, "rubbish of a longer content").unwrap();
        for content in ["1", "22"] {
            replace(&path, &temporary, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert!(!temporary.exists());
    }

    #[test]
    fn only_files_without_an_owner_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!(".tmp-{}-a", std::process::id()));
        let file = create(&path).unwrap();
        assert!(!remove_abandoned(&path, NOBODY).unwrap(), "it is locked");
        drop(file);
        assert!(!remove_abandoned(&path, std::process::id()).unwrap(), "its process is alive");
        assert!(remove_abandoned(&path, NOBODY).unwrap() && !path.exists());
        assert!(!remove_abandoned(&path, NOBODY).unwrap(), "there is none");

        let file = create(&path).unwrap();
        // The clock of the file system may lag behind.
        file.set_modified(SystemTime::now() - REUSE_AGE - Duration::from_secs(1)).unwrap();
        drop(file);
        assert!(remove_abandoned(&path, std::process::id()).unwrap(), "the process is another one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_for_the_time_are_those_of_temporary_files() {
        let own = std::process::id();
        for (name, expected) in
            [(".tmp-12-a", format!(".tmp-{own}-time-a")), (".12-a.tmp", format!(".{own}-time-a.tmp"))]
        {
            assert_eq!(sibling(Path::new(name), 12).to_str(), Some(&*expected));
        }
    }
}
