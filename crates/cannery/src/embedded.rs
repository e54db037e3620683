//! Sites that are part of the program.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::site::Site;

/// Makes an archive part of the program, as an [`Embedded`] site.
///
/// The file is `NAME` in Cargo's `OUT_DIR`, where `cannery-build` writes it from a build script:
///
/// ```ignore
/// // build.rs
/// fn main() {
///     cannery_build::archive("web/dist").emit("site.cdb");
/// }
/// ```
///
/// ```ignore
/// // main.rs
/// static SITE: cannery::Embedded = cannery::include_archive!("site.cdb");
///
/// let app = axum::Router::new().fallback_service(SITE.service());
/// ```
///
/// `include_archive!(path = "../site.cdb")` includes a file by its path relative to the source file, as `include_bytes!` does.
///
/// An archive of another version of the format is an error of the compiler.
#[macro_export]
macro_rules! include_archive {
    (path = $path:literal) => {
        $crate::Embedded::new(include_bytes!($path), None)
    };
    ($name:literal) => {
        $crate::Embedded::new(
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            Some(include_str!(concat!(env!("OUT_DIR"), "/", $name, ".source"))),
        )
    };
}

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
    /// Creates the site of an archive.
    ///
    /// # Panics
    ///
    /// Panics if the bytes aren't an archive of the version that this crate reads. In a constant or static, that is an error
    /// of the compiler.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(archive: &'static [u8], source: Option<&'static str>) -> Embedded {
        assert!(
            cannery_archive::has_schema_version(archive),
            "not an archive of the format version that this release of cannery reads: build it with cannery-build or \
             cannery-archiver of the same release"
        );
        Embedded { archive, source, site: OnceLock::new() }
    }

    /// Returns the bytes of the archive, for [`Server::embedded_site`](https://docs.rs/cannery/latest/cannery/struct.Server.html).
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
