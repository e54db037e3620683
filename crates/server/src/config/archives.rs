//! Archives to serve, and the hosts they are for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_site::Site;

use super::{HostPattern, Loading};

/// Content of a server.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Content {
    /// Archives for one or more hosts. Without any, only handlers can respond.
    Archives {
        /// The archives.
        archives: Vec<NamedArchive>,
        /// The way to get them into memory.
        loading: Loading,
        /// Checks for replaced archives even without a signal.
        watch: bool,
    },
    /// The same short body for every request, with `Content-Length` as the only field. This is meant for
    /// measuring the server without archives.
    Dummy {
        /// The response body.
        body: &'static [u8],
        /// Delay before each response.
        delay: Duration,
    },
}

impl Content {
    /// Returns the same body for every request, without a delay.
    #[must_use]
    pub fn dummy(body: &'static [u8]) -> Content {
        Content::Dummy { body, delay: Duration::ZERO }
    }

    /// Returns the archives. A server with a dummy has none.
    #[must_use]
    pub fn archives(&self) -> &[NamedArchive] {
        match self {
            Content::Archives { archives, .. } => archives,
            Content::Dummy { .. } => &[],
        }
    }
}

/// The body of `--dummy`.
pub const DUMMY_BODY: &[u8] = b"hello world!\n";

/// An archive and a host.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NamedArchive {
    /// Host to serve the archive for. `None` for the default archive.
    pub host: Option<HostPattern>,
    path: PathBuf,
    source: ArchiveSource,
}

/// Where an archive is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ArchiveSource {
    /// In the file at the path. When another file replaces it, that one is served.
    Path,
    /// In a release directory, which the path belongs to. Older releases from there are also served.
    ReleaseDirectory(ReleaseDirectory),
    /// In an open file. A [`Publisher`](crate::Publisher) can replace it.
    OpenFile(Arc<File>),
    /// In the program.
    Embedded(&'static [u8]),
    /// In a site that the program has opened. A [`SitePublisher`](crate::SitePublisher) can replace it.
    // Only for the crate `cannery`.
    #[doc(hidden)]
    Opened(Arc<Site>),
}

impl NamedArchive {
    /// Returns an archive that is opened by path.
    #[must_use]
    pub fn new(host: Option<HostPattern>, path: PathBuf) -> NamedArchive {
        NamedArchive { host, path, source: ArchiveSource::Path }
    }

    /// Returns an archive in an open file. The bytes of this file must not change any more.
    #[must_use]
    pub fn from_file(host: Option<HostPattern>, name: PathBuf, file: File) -> NamedArchive {
        NamedArchive { host, path: name, source: ArchiveSource::OpenFile(Arc::new(file)) }
    }

    /// Returns an archive that is embedded in the program.
    #[must_use]
    pub fn embedded(host: Option<HostPattern>, name: PathBuf, bytes: &'static [u8]) -> NamedArchive {
        NamedArchive { host, path: name, source: ArchiveSource::Embedded(bytes) }
    }

    /// Returns the archive of a site that the program has opened.
    pub(crate) fn opened(host: Option<HostPattern>, name: PathBuf, site: Arc<Site>) -> NamedArchive {
        NamedArchive { host, path: name, source: ArchiveSource::Opened(site) }
    }

    /// Returns the current archive of a release directory.
    #[must_use]
    pub fn from_directory(host: Option<HostPattern>, releases: ReleaseDirectory) -> NamedArchive {
        let path = releases.path.join(CURRENT);
        NamedArchive { host, path, source: ArchiveSource::ReleaseDirectory(releases) }
    }

    /// Returns the path of the archive. For an open file or an embedded archive, this is only a name for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where the archive is.
    #[must_use]
    pub fn source(&self) -> &ArchiveSource {
        &self.source
    }

    /// Returns the release directory that the archive belongs to, if any.
    #[must_use]
    pub fn releases(&self) -> Option<&ReleaseDirectory> {
        match &self.source {
            ArchiveSource::ReleaseDirectory(releases) => Some(releases),
            _ => None,
        }
    }

    /// Returns `true` if the archive is opened by its path, so that another file can replace it.
    pub(crate) fn is_opened_by_path(&self) -> bool {
        matches!(self.source, ArchiveSource::Path | ArchiveSource::ReleaseDirectory(_))
    }
}

/// Name of the symlink that points to the current archive in a release directory.
pub const CURRENT: &str = "current";

/// A directory of archives. A symlink named `current` selects the one to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Older archives to keep, newest first. They serve immutable paths that the current archive no longer
    /// has.
    pub kept: usize,
}

impl ReleaseDirectory {
    /// Returns a directory that keeps this many older archives.
    #[must_use]
    pub fn new(path: PathBuf, kept: usize) -> ReleaseDirectory {
        ReleaseDirectory { path, kept }
    }
}
