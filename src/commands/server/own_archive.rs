//! The archive inside this program's own file, where `cannery bundle` has put it.
//!
//! Opening an archive only checks its length and its first record. The digest is checked here too, because executables are copied
//! from machine to machine more often than they are verified. If there are several processes, this is only done by the one that
//! was started by the operator. It takes about 0.3 ms per MiB, so large archives are checked while they are already being served.

use std::fs::File;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, program_bytes};

use crate::commands::{open, verify};
use crate::output::{self, Failure};

/// Maximum size of archives that are checked before the server starts. This should take about a millisecond.
const CHECKED_FIRST_BYTES_MAX: u64 = 4 << 20;

/// Looks for this program's own file. It is only returned if the program is followed by an archive or a part
/// of one.
pub(super) fn find(started: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    // We prefer the name under which the program was started: this may be a symbolic link, and operators can switch it to
    // deploy another release.
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
    /// Checks the archive now when it is small or this is a supervisor; otherwise, returns it.
    pub(super) fn open(path: &Path, is_supervisor: bool) -> Result<Option<Unchecked>, Failure> {
        let unchecked = Unchecked { archive: open::open(path)?, path: path.to_owned() };
        if is_supervisor || unchecked.archive.facts().file_bytes <= CHECKED_FIRST_BYTES_MAX {
            return unchecked.check().map(|()| None);
        }
        Ok(Some(unchecked))
    }

    /// Checks the archive on another thread. When it is damaged, this will print an error and exit the
    /// process.
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
