//! Temporary files: removed when dropped, and all together when the process is interrupted.
//!
//! The list is global, because a signal ends the whole process. Files are created, renamed and removed while its lock is
//! held, so that [`remove_all`] misses none.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Permissions of a file without a name: only this user may open it, in the moment in which it has one.
const UNLINKED_MODE: u32 = 0o600;

/// Makes names unique within this process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // The set is consistent at any time, even if another thread has panicked.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates a file that doesn't exist yet, open for reading and writing.
    pub(crate) fn create(path: PathBuf, mode: u32) -> io::Result<(Temporary, File)> {
        let mut live = live();
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&path)?;
        live.insert(path.clone());
        Ok((Temporary { path }, file))
    }

    /// Renames the file to its final name, replacing an existing file.
    pub(crate) fn persist(self, place: &Path) -> io::Result<()> {
        let mut live = live();
        fs::rename(&self.path, place)?;
        live.remove(&self.path);
        Ok(())
    }
}

impl Temporary {
    /// Forgets the file without removing it.
    pub(crate) fn forget(self) {
        live().remove(&self.path);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut live = live();
        // A file that isn't on the list any more was renamed, or belongs to another build.
        if live.remove(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a whole file as `temporary` first, then renames it to `place`.
pub(crate) fn write_whole(temporary: PathBuf, place: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<()> {
    // Only a process with the same ID, which has exited, can have left it.
    let _ = fs::remove_file(&temporary);
    let (temporary, mut file) = Temporary::create(temporary, mode)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    drop(file);
    temporary.persist(place)
}

/// Creates an empty file in a directory, open for reading and writing, and removes its name at once.
pub(crate) fn create_unlinked(directory: &Path) -> io::Result<File> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!(".cannery-{}-{serial}.tmp", std::process::id());
    let (temporary, file) = Temporary::create(directory.join(name), UNLINKED_MODE)?;
    drop(temporary);
    Ok(file)
}

/// Blocks every build of this process while it exists. Keep it until the process exits.
#[must_use = "without it a build goes on and creates new files"]
pub struct Frozen(#[allow(dead_code, reason = "held, not read")] MutexGuard<'static, BTreeSet<PathBuf>>);

/// Removes the temporary files of all builds of this process, which must exit next.
pub fn remove_all() -> Frozen {
    let live = live();
    for path in live.iter() {
        let _ = fs::remove_file(path);
    }
    Frozen(live)
}
