//! The archive inside this program's own file, where `cannery bundle` has put it.
//!
//! When we open an archive, we only check its length and first record. Here, we also check the digest because executables are
//! copied from machine to machine more often than they are verified. With several processes, only the one started by the operator
//! does this. It takes about 0.3 ms per MiB, so a large archive is checked while it's already being served.

use std::fs::File;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, program_bytes};

use crate::commands::{open, verify};
use crate::output::{self, Failure};

/// Archives up to this size are checked before the server starts. This takes about a millisecond.
const CHECKED_FIRST_BYTES_MAX: u64 = 4 << 20;

/// Returns this program's file, if there is an archive or a part of one after the program.
pub(super) fn find(started: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    // Prefer the name under which the program was started: it may be a symbolic link that is switched to deploy another release.
    let names = started().into_iter().chain(std::env::current_exe().ok());
    names.into_iter().find(|path| is_longer_than_program(path).unwrap_or(false))
}

fn is_longer_than_program(path: &Path) -> std::io::Result<bool> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok(program_bytes(&file)?.is_some_and(|program_bytes| program_bytes < length))
}

/// An archive that we have yet to check.
pub(super) struct Unchecked {
    path: PathBuf,
    archive: Archive,
}

impl Unchecked {
    /// If the archive is small, or this is a supervisor, checks it now. Otherwise, returns it.
    pub(super) fn open(path: &Path, is_supervisor: bool) -> Result<Option<Unchecked>, Failure> {
        let unchecked = Unchecked { archive: open::open(path)?, path: path.to_owned() };
        if is_supervisor || unchecked.archive.facts().file_bytes <= CHECKED_FIRST_BYTES_MAX {
            return unchecked.check().map(|()| None);
        }
        Ok(Some(unchecked))
    }

    /// Checks the archive on another thread. If it's damaged, prints an error and exits the process.
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
