//! The archive inside this program's own file, where `cannery bundle` has put it.
//!
//! The server verifies it like any other archive: a small one before the first request, and a large one while it is being served. As
//! executables are copied from machine to machine more often than archives are, a program with a damaged archive ends with an error
//! even then. If there are several processes, the supervisor verifies a large archive, too, before it starts them.

use std::fs::File;
use std::path::{Path, PathBuf};

use cannery_archive::program_bytes;
use cannery_server::ARCHIVE_VERIFIED_BYTES_MAX;

use crate::commands::{open, verify};
use crate::output::{self, Failure};

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

/// Checks the digest of an archive that is too large for the server to verify before it serves it.
pub(super) fn check_large(path: &Path) -> Result<(), Failure> {
    let archive = open::open(path)?;
    if archive.facts().file_bytes <= ARCHIVE_VERIFIED_BYTES_MAX {
        return Ok(());
    }
    archive.verify_digest().map_err(|error| verify::failure(path, &error))
}

/// Ends the process because the archive at `path` turned out to be damaged while it was being served.
pub(super) fn exit_damaged(path: &Path, why: &str) -> ! {
    let failure = open::damaged(Failure::input(format!("{}: {why}", path.display())), path);
    let exit = failure.exit();
    let _ = output::report(Err(failure));
    std::process::exit(exit as i32)
}
