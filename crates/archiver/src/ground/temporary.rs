//! Temporary files. They are removed when dropped or, if the process is interrupted, all at once.
//!
//! The list of files has to be global because a signal ends the whole process. We only create, rename or remove files while
//! the list is locked. This ensures that [`remove_all`] won't miss any of them.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mode of unnamed files. They have a name for a brief moment, in which other users should not be able to open them.
const UNLINKED_MODE: u32 = 0o600;

/// Makes names unique within this process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A poisoned lock is harmless because the set is always consistent.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file that is removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates a new file for reading and writing.
    pub(crate) fn create(path: PathBuf, mode: u32) -> io::Result<(Temporary, File)> {
        let mut live = live();
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&path)?;
        live.insert(path.clone());
        Ok((Temporary { path }, file))
    }

    /// Renames the file to its final name, which can replace another file.
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
        // When the file is not in the list, it was renamed in the meantime or belongs to another build.
        if live.remove(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a whole file under the name `temporary`, and then renames it to `place`.
pub(crate) fn write_whole(temporary: PathBuf, place: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<()> {
    // If this file exists, it was left behind by an earlier process that happened to have the
    // same ID.
    let _ = fs::remove_file(&temporary);
    let (temporary, mut file) = Temporary::create(temporary, mode)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    drop(file);
    temporary.persist(place)
}

/// Creates an empty file in a directory for reading and writing and unlinks it right away.
pub(crate) fn create_unlinked(directory: &Path) -> io::Result<File> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!(".cannery-{}-{serial}.tmp", std::process::id());
    let (temporary, file) = Temporary::create(directory.join(name), UNLINKED_MODE)?;
    drop(temporary);
    Ok(file)
}

/// Blocks all builds in this process for as long as it exists.
///
/// It must be kept until the process exits.
#[must_use = "without it a build goes on and creates new files"]
pub struct Frozen(#[allow(dead_code, reason = "held, not read")] MutexGuard<'static, BTreeSet<PathBuf>>);

/// Removes the temporary files of all builds in this process. The process must exit after this call.
pub fn remove_all() -> Frozen {
    let live = live();
    for path in live.iter() {
        let _ = fs::remove_file(path);
    }
    Frozen(live)
}
