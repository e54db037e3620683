//! Opens archives, and protects them from being modified by other processes.

use std::path::Path;
use std::sync::Arc;

use cannery_archive::{Archive, Lease, Loading, OpenError};
use cannery_site::{Site, VirtualHosts};

use crate::config::{ArchiveSource, NamedArchive};

/// Maximum size of an archive that we read into memory if it cannot be leased.
const UNLEASED_COPIED_BYTES_MAX: u64 = 256 << 20;

/// An open archive. Other processes cannot change it while it is served, unless `is_unguarded` is set.
pub(crate) struct OpenedArchive {
    pub(crate) archive: Archive,
    /// Must stay with the thread that checks it because other threads might have separate descriptor tables.
    pub(crate) lease: Option<Lease>,
    /// Whether other processes can change the archive because it can neither be leased nor copied.
    pub(crate) is_unguarded: bool,
}

/// The site of a configured archive.
pub(super) struct OpenedSite {
    pub(super) site: Arc<Site>,
    pub(super) lease: Option<Lease>,
    /// As for [`OpenedArchive`].
    pub(super) is_unguarded: bool,
}

/// Opens a configured archive.
pub(super) fn open_named(
    named: &NamedArchive,
    loading: Loading,
    virtual_hosts: VirtualHosts,
) -> Result<OpenedSite, OpenError> {
    let unleased = |archive| OpenedArchive { archive, lease: None, is_unguarded: false };
    let OpenedArchive { archive, lease, is_unguarded } = match named.source() {
        ArchiveSource::Path | ArchiveSource::ReleaseDirectory(_) => open(named.path(), loading)?,
        ArchiveSource::OpenFile(file) => unleased(Archive::from_file(file, loading)?),
        ArchiveSource::Embedded(bytes) => unleased(Archive::from_static(bytes)?),
        ArchiveSource::Opened(site) => {
            let site = Arc::clone(site).with_virtual_hosts(virtual_hosts);
            return Ok(OpenedSite { site, lease: None, is_unguarded: false });
        }
    };
    Ok(OpenedSite { site: Arc::new(Site::new(archive, virtual_hosts)), lease, is_unguarded })
}

/// Opens an archive. It is mapped if it can be leased, and otherwise read into memory if it is small enough.
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
