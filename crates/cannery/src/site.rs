//! A site: an open archive that several threads answer from, and that another one can replace.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cannery_archive::{Archive, Extent, Loading, OpenError, VerifyError};
use cannery_site::{Site as Answers, VirtualHosts};

/// An open archive.
///
/// A clone refers to the same site: [`Site::replace`] takes effect in all of them.
#[derive(Clone)]
pub struct Site {
    current: Arc<ArcSwap<Release>>,
}

/// One archive, and its bytes for the bodies of responses.
pub(crate) struct Release {
    pub(crate) answers: Arc<Answers>,
    /// The whole archive. A body is a part of it that shares the ownership, so it outlives a replacement.
    pub(crate) bytes: Bytes,
}

impl Release {
    /// Returns a range of the archive, or `None` if it exceeds the archive.
    pub(crate) fn slice(&self, extent: Extent) -> Option<Bytes> {
        let start = usize::try_from(extent.position).ok()?;
        let end = start.checked_add(usize::try_from(extent.length).ok()?)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

/// The owner of an archive's bytes.
struct ArchiveBytes(Arc<Answers>);

impl AsRef<[u8]> for ArchiveBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.archive().bytes()
    }
}

impl Site {
    /// Opens the archive at `path`.
    ///
    /// A small archive is read into memory; a larger one is mapped, so that the memory is the system's page cache. Don't write
    /// to a file that is open: write a new one and rename it to the name of the old one, as `cannery-archiver` does.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if the file can't be read, or isn't an archive of the version that this crate reads.
    pub fn open(path: impl AsRef<Path>) -> Result<Site, OpenError> {
        Archive::open(path.as_ref(), Loading::Automatic).map(Site::new)
    }

    /// Opens an archive from bytes in memory.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if the bytes aren't an archive of the version that this crate reads.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Site, OpenError> {
        Archive::from_bytes(bytes).map(Site::new)
    }

    /// Opens an archive that is part of the program, without copying it. See [`include_archive!`](crate::include_archive).
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if the bytes aren't an archive of the version that this crate reads.
    pub fn from_static(bytes: &'static [u8]) -> Result<Site, OpenError> {
        let answers = Arc::new(Answers::new(Archive::from_static(bytes)?, VirtualHosts::Enabled));
        Ok(Site::of(Release { answers, bytes: Bytes::from_static(bytes) }))
    }

    #[cfg(all(feature = "follow", debug_assertions))]
    pub(crate) fn from_file(file: &std::fs::File) -> Result<Site, OpenError> {
        Archive::from_file(file, Loading::Mapped).map(Site::new)
    }

    fn new(archive: Archive) -> Site {
        let answers = Arc::new(Answers::new(archive, VirtualHosts::Enabled));
        let bytes = Bytes::from_owner(ArchiveBytes(answers.clone()));
        Site::of(Release { answers, bytes })
    }

    fn of(release: Release) -> Site {
        Site { current: Arc::new(ArcSwap::from_pointee(release)) }
    }

    /// Replaces the archive by that of `next`, for this site and all its clones.
    ///
    /// Requests that follow are answered from the new archive. Bodies that are being sent end as they began: they keep the old
    /// archive until they are dropped.
    ///
    /// ```no_run
    /// # let site = cannery::Site::open("site.cdb")?;
    /// match cannery::Site::open("next.cdb") {
    ///     Ok(next) => site.replace(&next),
    ///     Err(error) => eprintln!("next.cdb: {error}"),
    /// }
    /// # Ok::<(), cannery::OpenError>(())
    /// ```
    pub fn replace(&self, next: &Site) {
        self.current.store(next.current.load_full());
    }

    /// Checks every byte of the archive against its digest, and the structure of every record.
    ///
    /// [`Site::open`] doesn't do that, because it reads the whole archive: about a second for each gigabyte.
    ///
    /// # Errors
    ///
    /// Returns [`VerifyError`] with the position of the damage.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.release().answers.archive().verify(|_| {}).map(|_| ())
    }

    /// Returns the digest of the archive, which names the release: equal folders and options have equal digests.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.release().answers.archive().facts().digest.0
    }

    pub(crate) fn release(&self) -> arc_swap::Guard<Arc<Release>> {
        self.current.load()
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let release = self.release();
        let facts = release.answers.archive().facts();
        formatter
            .debug_struct("Site")
            .field("paths", &facts.paths)
            .field("bytes", &facts.file_bytes)
            .finish_non_exhaustive()
    }
}
