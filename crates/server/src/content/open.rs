//! Archives opened such that nobody changes them under those who read them.

use std::path::Path;

use cannery_archive::{Archive, Lease, Loading, OpenError};

/// Archives up to this size are read into memory where they cannot be leased.
const UNLEASED_COPIED_BYTES_MAX: u64 = 256 << 20;

/// An archive that was opened such that nobody changes it under those who read it.
pub(crate) struct OpenedArchive {
    pub(crate) archive: Archive,
    /// Belongs to the thread that looks at it, for the others may have no table of descriptors in common.
    pub(crate) lease: Option<Lease>,
    /// Whether it was opened, and may be changed all the same.
    pub(crate) is_unguarded: bool,
}

/// Opens an archive: mapped if it can be leased, else read into memory unless it is too large for that.
pub(crate) fn open(path: &Path, loading: Loading) -> Result<OpenedArchive, OpenError> {
    let (archive, lease) = Archive::open_leased(path, loading)?;
    if lease.is_some() || archive.is_in_memory() {
        return Ok(OpenedArchive { archive, lease, is_unguarded: false });
    }
    if archive.facts().file_bytes > UNLEASED_COPIED_BYTES_MAX {
        return Ok(OpenedArchive { archive, lease, is_unguarded: true });
    }
    let archive = Archive::open(path, Loading::InMemory)?;
    Ok(OpenedArchive { archive, lease, is_unguarded: false })
}
