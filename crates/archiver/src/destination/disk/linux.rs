//! Files without a name on Linux: `O_TMPFILE` (`open(2)`).

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, statfs};
use rustix::io::Errno;

use crate::ground::temporary::create_unlinked;

/// Magic numbers of file systems in memory, tmpfs and ramfs (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Creates an empty file in a directory, open for reading and writing.
pub(super) fn create(directory: &Path) -> io::Result<File> {
    // With `O_EXCL`, the file can't get a name later.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // The file system lacks such files, or the kernel does.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_unlinked(directory),
        Err(error) => Err(error.into()),
    }
}

/// Returns `true` if the files of a directory are in memory.
pub(super) fn is_in_memory(directory: &Path) -> bool {
    // The type of `f_type` depends on the architecture, and the magic numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    statfs(directory).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64 & 0xffff_ffff)))
}
