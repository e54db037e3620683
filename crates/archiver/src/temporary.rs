//! Temporary files of a build: removed when they are dropped, and all together when the process is interrupted.
//!
//! A process-wide list, because a signal ends the whole process. Creating, renaming and removing happen under its
//! lock, so that no file escapes [`remove_all`].

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // The set is whole at any moment: a panic of another thread breaks nothing in it.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates a file that must not exist yet, open for reading and writing.
    pub(crate) fn create(path: PathBuf, mode: u32) -> io::Result<(Temporary, File)> {
        let mut live = live();
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&path)?;
        live.insert(path.clone());
        Ok((Temporary { path }, file))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its final name, in place of what has it now.
    pub(crate) fn persist(self, place: &Path) -> io::Result<()> {
        let mut live = live();
        fs::rename(&self.path, place)?;
        live.remove(&self.path);
        Ok(())
    }
}

impl Temporary {
    /// Leaves whatever has this name now alone.
    pub(crate) fn forget(self) {
        live().remove(&self.path);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut live = live();
        // What is not on the list any more has another name, or is another build's.
        if live.remove(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a file whole: to `temporary` first, which gets the name `place` at the end.
pub(crate) fn write_whole(temporary: PathBuf, place: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<()> {
    // Only a process with the same number, which has exited, can have left it.
    let _ = fs::remove_file(&temporary);
    let (temporary, mut file) = Temporary::create(temporary, mode)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    drop(file);
    temporary.persist(place)
}

/// Holds up every build of this process. Hold it until the process exits.
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
