//! In-memory files on Linux: `memfd_create(2)`.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Name shown in `/proc/PID/maps`.
const NAME: &str = "cannery-archive";

/// Creates an empty file for reading and writing.
///
/// # Errors
///
/// This will fail when the system is out of memory or descriptors.
pub(crate) fn create() -> io::Result<File> {
    Ok(memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Seals a file. It is safe to map it after this, as no process will be able to modify it any more.
///
/// # Errors
///
/// This will fail on systems without these seals (Linux before 5.1).
pub(crate) fn protect(file: &File) -> io::Result<()> {
    // Before Linux 6.7, `F_SEAL_WRITE` also forbids read-only mappings.
    Ok(fcntl_add_seals(
        file,
        SealFlags::FUTURE_WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn sealed_file_cannot_change() {
        let mut file = create().unwrap();
        file.write_all(b"content").unwrap();
        protect(&file).unwrap();
        let archive = cannery_archive::Archive::from_file(&file, cannery_archive::Loading::Mapped);
        assert!(matches!(archive, Err(cannery_archive::OpenError::TooShort { .. })));
        assert!(file.write_all(b"more").is_err());
        assert!(file.set_len(1).is_err());
    }
}
