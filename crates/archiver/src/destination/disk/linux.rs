//! Unnamed files on Linux: `O_TMPFILE` (`open(2)`).

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, statfs};
use rustix::io::Errno;

use crate::ground::temporary::create_unlinked;

/// Magic numbers of in-memory file systems: tmpfs and ramfs (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Creates an empty, unnamed file in a directory for reading and writing.
pub(super) fn create(directory: &Path) -> io::Result<File> {
    // `O_EXCL` means that the file cannot be given a name later.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Either the file system or the kernel does not support this.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_unlinked(directory),
        Err(error) => Err(error.into()),
    }
}

/// Returns `true` if files in this directory are in memory.
pub(super) fn is_in_memory(directory: &Path) -> bool {
    // Magic numbers always have 32 bits, but the type of `f_type` depends on the architecture.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    statfs(directory).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64 & 0xffff_ffff)))
}
