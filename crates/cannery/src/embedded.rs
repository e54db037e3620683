//! Sites that are part of the program.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::site::Site;

/// A site that is part of the program, which [`include_archive!`](crate::include_archive) makes.
///
/// It dereferences to a [`Site`], which is opened on first use.
pub struct Embedded {
    archive: &'static [u8],
    /// The folder that the archive was compiled from, with the options, as `cannery-build` wrote them.
    source: Option<&'static str>,
    site: OnceLock<Site>,
}

impl Embedded {
    /// Creates the site of an archive. The compiler can read `beginning`, its first bytes, but not data that is linked later.
    ///
    /// # Panics
    ///
    /// Panics if the bytes aren't an archive of the version that this crate reads. In a constant or static, that is an error
    /// of the compiler.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(beginning: &[u8], archive: &'static [u8], source: Option<&'static str>) -> Embedded {
        assert!(
            cannery_archive::has_schema_version(beginning),
            "not an archive of the format version that this release of cannery reads: build it with cannery-build or \
             cannery-archiver of the same release"
        );
        Embedded { archive, source, site: OnceLock::new() }
    }

    /// Returns the bytes of the archive that is part of the program, also in a debug build that follows the folder.
    #[must_use]
    pub const fn archive(&self) -> &'static [u8] {
        self.archive
    }

    /// Opens the site if it isn't open yet.
    ///
    /// # Panics
    ///
    /// Panics if the archive was truncated before it became part of the program.
    fn open(&self) -> &Site {
        self.site.get_or_init(|| {
            #[cfg(all(feature = "follow", debug_assertions))]
            if let Some(site) = self.source.and_then(crate::follow::follow) {
                return site;
            }
            Site::from_static(self.archive).expect("an embedded archive must be whole")
        })
    }
}

/// For `Server::embedded_site`. In debug builds with the feature `follow`, the server follows the folder.
#[cfg(feature = "server")]
impl From<&'static Embedded> for cannery_server::EmbeddedArchive {
    fn from(site: &'static Embedded) -> cannery_server::EmbeddedArchive {
        let archive = cannery_server::EmbeddedArchive::from(site.archive);
        #[cfg(all(feature = "follow", debug_assertions))]
        if let Some(source) = site.source {
            return archive.following(move || {
                let (sender, next) = std::sync::mpsc::channel();
                let first = crate::follow::follow_archives(source, move |archive| {
                    // The server has stopped if this fails.
                    sender
                        .send(archive)
                        .map_or(std::ops::ControlFlow::Break(()), std::ops::ControlFlow::Continue)
                })?;
                Some(cannery_server::FolderReleases { first, next })
            });
        }
        archive
    }
}

impl Deref for Embedded {
    type Target = Site;

    fn deref(&self) -> &Site {
        self.open()
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let folder = self.source.and_then(|source| source.lines().next());
        formatter
            .debug_struct("Embedded")
            .field("bytes", &self.archive.len())
            .field("folder", &folder)
            .finish_non_exhaustive()
    }
}
