//! An open archive that may be shared by several threads and replaced with another one.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cannery_archive::{Archive, Digest, Extent, Loading, OpenError, VerifyError};
use cannery_site::{Site as Answers, VirtualHosts};

#[cfg(feature = "server")]
use crate::servers::Servers;

/// An open archive.
///
/// All clones refer to the same site, so [`Site::replace`] affects all of them.
#[derive(Clone)]
pub struct Site {
    pub(crate) shared: Arc<Shared>,
}

/// State that all clones of a site share.
pub(crate) struct Shared {
    current: ArcSwap<Release>,
    #[cfg(feature = "server")]
    servers: Servers,
}

/// An archive and its bytes, which become response bodies.
pub(crate) struct Release {
    pub(crate) answers: Arc<Answers>,
    /// The whole archive. Bodies are slices that share ownership of it, and therefore survive a replacement.
    pub(crate) bytes: Bytes,
}

impl Release {
    /// Returns a range of the archive, or `None` if it's out of bounds.
    pub(crate) fn slice(&self, extent: Extent) -> Option<Bytes> {
        let start = usize::try_from(extent.position).ok()?;
        let end = start.checked_add(usize::try_from(extent.length).ok()?)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

/// Owns the bytes of an archive.
struct ArchiveBytes(Arc<Answers>);

impl AsRef<[u8]> for ArchiveBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.archive().bytes()
    }
}

impl Site {
    /// Opens the archive at `path`.
    ///
    /// Small archives are read into memory. Larger ones are mapped, so they only occupy the system's page cache. You should
    /// never write to an archive while it is open: write a new file and rename it to the old name instead, as
    /// `cannery-archiver` does. If you cannot rely on that, use `Site::from_bytes(std::fs::read(path)?)`, which copies the archive.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError::At`] if the file cannot be read or is not an archive with the format version of this crate.
    ///
    /// ```
    /// let error = cannery::Site::open("missing.cdb").unwrap_err();
    /// assert_eq!(error.to_string(), "missing.cdb: cannot read the archive: No such file or directory (os error 2)");
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Site, OpenError> {
        let path = path.as_ref();
        Archive::open(path, Loading::Automatic).map(Site::new).map_err(|error| error.at(path))
    }

    /// Opens an archive in memory.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if the bytes are not an archive with the format version of this crate.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Site, OpenError> {
        Archive::from_bytes(bytes).map(Site::new)
    }

    /// Opens an archive embedded in the program. This does not copy it. See
    /// [`include_archive!`](crate::include_archive).
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if the bytes are not an archive with the format version of this crate.
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
        Site {
            shared: Arc::new(Shared {
                current: ArcSwap::from_pointee(release),
                #[cfg(feature = "server")]
                servers: Servers::default(),
            }),
        }
    }

    /// Replaces the archive with that of `next`, both for this site and for all of its clones.
    ///
    /// The new archive is used for all requests from now on. Bodies that are currently being sent are not affected, because
    /// they keep the old archive alive until they are dropped.
    ///
    /// With the feature `server`, this also replaces the archive in servers that were given the site, such as by
    /// `Server::embedded_site(&SITE)`. A thread of a server that is busy answers the requests that it has already received first.
    /// Other sites of the server are not affected. If the server has [several processes](crate::Server::processes), each process has
    /// to replace its own.
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
        let next = next.shared.current.load_full();
        #[cfg(feature = "server")]
        self.shared.servers.replace(|| {
            let answers = Arc::clone(&next.answers);
            self.shared.current.store(next);
            answers
        });
        #[cfg(not(feature = "server"))]
        self.shared.current.store(next);
    }

    /// Tells a server about each archive of this site, beginning with the current one.
    #[cfg(feature = "server")]
    pub(crate) fn publish_to(&self, server: cannery_server::SitePublisher) {
        self.shared.servers.add(server, || Arc::clone(&self.release().answers));
    }

    /// Compares every byte of the archive with its digest and checks the structure of all records.
    ///
    /// This is not part of [`Site::open`] because the whole archive needs to be read, at about a second per
    /// gigabyte.
    ///
    /// # Errors
    ///
    /// Returns [`VerifyError`] with the position of the damage.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.release().answers.archive().verify(|_| {}).map(|_| ())
    }

    /// Returns the digest of the archive. You can use it to identify a release: equal folders and options always have the
    /// same digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.release().answers.archive().facts().digest
    }

    pub(crate) fn release(&self) -> arc_swap::Guard<Arc<Release>> {
        self.shared.current.load()
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
