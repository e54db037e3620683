//! The archive in this program's own file, which `cannery bundle` has put there.
//!
//! Opening it checks its length and first record. In addition, the process that the operator starts checks the digest, because
//! an executable is copied from machine to machine more often than it is verified. That takes about 0.3 ms for each MiB, so a
//! large archive is checked while it is already served.

use std::fs::File;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, program_bytes};

use crate::commands::{open, verify};
use crate::output::{self, Failure};

/// Archives of up to this size are checked before the server starts, which takes about a millisecond.
const CHECKED_FIRST_BYTES_MAX: u64 = 4 << 20;

/// Returns the file of this program if an archive, or part of one, follows the program in it.
pub(super) fn find(started: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    // The name by which the program was started may be a symbolic link, which is switched to deploy another release.
    let names = started().into_iter().chain(std::env::current_exe().ok());
    names.into_iter().find(|path| is_longer_than_program(path).unwrap_or(false))
}

fn is_longer_than_program(path: &Path) -> std::io::Result<bool> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok(program_bytes(&file)?.is_some_and(|program_bytes| program_bytes < length))
}

/// A check of the archive that is still to be made.
pub(super) struct Unchecked {
    path: PathBuf,
    archive: Archive,
}

impl Unchecked {
    /// Checks the archive now if it is small, or if this is a supervisor. Otherwise, returns it.
    pub(super) fn open(path: &Path, is_supervisor: bool) -> Result<Option<Unchecked>, Failure> {
        let unchecked = Unchecked { archive: open::open(path)?, path: path.to_owned() };
        if is_supervisor || unchecked.archive.facts().file_bytes <= CHECKED_FIRST_BYTES_MAX {
            return unchecked.check().map(|()| None);
        }
        Ok(Some(unchecked))
    }

    /// Checks the archive in a thread, and ends this process with an error if it is damaged.
    pub(super) fn check_in_background(self) -> Result<(), Failure> {
        let check = move || {
            if let Err(failure) = self.check() {
                let exit = failure.exit();
                let _ = output::report(Err(failure));
                std::process::exit(exit as i32);
            }
        };
        let thread = std::thread::Builder::new().name("check".into()).spawn(check);
        thread.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }

    fn check(&self) -> Result<(), Failure> {
        self.archive.verify_digest().map_err(|error| verify::failure(&self.path, &error))
    }
}
