//! Sites that are embedded in the program.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::site::Site;

/// A site embedded in the program. It's created by [`include_archive!`](crate::include_archive).
///
/// It dereferences to a [`Site`], which will be opened on first use.
pub struct EmbeddedSite {
    archive: &'static [u8],
    /// The folder and options from which the archive was compiled, as written by `cannery-build`.
    source: Option<&'static str>,
    site: OnceLock<Site>,
}

impl EmbeddedSite {
    /// Creates a site. `beginning` are the first bytes of the archive. This allows the compiler to check them even if the
    /// rest will only be linked later.
    ///
    /// # Panics
    ///
    /// Panics if the bytes are not an archive with the format version of this crate. When used in a constant or static, this
    /// turns into a compile error.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(beginning: &[u8], archive: &'static [u8], source: Option<&'static str>) -> EmbeddedSite {
        assert!(
            cannery_archive::has_schema_version(beginning),
            "not an archive of the format version that this release of cannery reads: build it with cannery-build or \
             cannery-archiver of the same release"
        );
        EmbeddedSite { archive, source, site: OnceLock::new() }
    }

    /// Returns the embedded archive, even if a debug build follows the folder instead.
    #[must_use]
    pub const fn archive(&self) -> &'static [u8] {
        self.archive
    }

    /// Checks that the archive is whole.
    ///
    /// # Errors
    /// Returns an error if it was truncated before it was embedded.
    #[cfg(feature = "server")]
    pub(crate) fn check(&self) -> Result<(), cannery_archive::OpenError> {
        cannery_archive::Archive::from_static(self.archive).map(|_| ())
    }

    /// Opens the site on the first call.
    ///
    /// # Panics
    ///
    /// Panics if the archive was truncated before it was embedded.
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

impl Deref for EmbeddedSite {
    type Target = Site;

    fn deref(&self) -> &Site {
        self.open()
    }
}

impl std::fmt::Debug for EmbeddedSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let folder = self.source.and_then(|source| source.lines().next());
        formatter
            .debug_struct("EmbeddedSite")
            .field("bytes", &self.archive.len())
            .field("folder", &folder)
            .finish_non_exhaustive()
    }
}
