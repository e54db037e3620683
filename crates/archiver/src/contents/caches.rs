//! Caches between builds, both for compressed contents and for digests of source files. They are stored on disk, or in
//! memory if builds are repeated within one process.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use cannery_archive::Digest;
use cannery_base::FileStamp;

use crate::codings::coders::Coders;
use crate::contents::compress_cache::{CompressCache, Outcome, ResultKey};
use crate::contents::memory_cache::MemoryCache;
use crate::contents::sources_cache::{News, SourcesCache};
use crate::ground::diagnostic::Diagnostic;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::snapshot::Earlier;
use crate::sources::source::Sources;
use crate::sources::source_facts::SourceFacts;

/// The caches in use.
pub(crate) enum Caches<'a> {
    Disk(DiskCaches),
    Memory { earlier: Earlier, results: &'a MemoryCache },
}

/// The on-disk caches that are enabled in the options.
pub(crate) struct DiskCaches {
    compress: Option<CompressCache>,
    sources: Option<SourcesCache>,
    /// Absolute path of the source folder. The keys of `sources` start with it.
    root: Vec<u8>,
}

impl DiskCaches {
    pub(crate) fn open(options: &Options) -> Result<DiskCaches, Error> {
        let root = fs::canonicalize(&options.sources).map_err(Error::read(options.sources.clone()))?;
        Ok(DiskCaches {
            compress: options.compress_cache.as_deref().map(CompressCache::open).transpose()?,
            sources: options.sources_cache.as_deref().map(SourcesCache::load).transpose()?,
            root: root.into_os_string().as_bytes().to_vec(),
        })
    }
}

impl Caches<'_> {
    /// Returns the cached properties of a file unless its stamp has changed.
    ///
    /// The path is relative to the source folder.
    pub(super) fn facts(&self, path: &[u8], stamp: &FileStamp) -> Option<SourceFacts> {
        match self {
            Caches::Disk(DiskCaches { sources, root, .. }) => {
                sources.as_ref()?.find(&[root, b"/".as_slice(), path].concat(), stamp)
            }
            Caches::Memory { earlier, .. } => Some(earlier.unchanged(path, stamp)?.facts),
        }
    }

    /// Whether the properties of files will be stored for the next build.
    pub(super) fn stores_facts(&self) -> bool {
        match self {
            Caches::Disk(caches) => caches.sources.is_some(),
            Caches::Memory { .. } => true,
        }
    }

    /// Returns `true` if we keep track of which results have been verified.
    ///
    /// This is not needed for results in memory.
    pub(super) fn stores_verified(&self) -> bool {
        matches!(self, Caches::Disk(DiskCaches { sources: Some(_), .. }))
    }

    /// Looks up the cached result of compressing a content of `length` bytes. Only valid results are
    /// returned.
    pub(super) fn result(&self, key: &ResultKey, length: u64, coders: &mut Coders) -> Option<Outcome> {
        match self {
            Caches::Disk(DiskCaches { compress, sources, .. }) => {
                let verified = sources.as_ref().and_then(|known| known.verified(key));
                compress.as_ref()?.find(key, length, verified, coders)
            }
            Caches::Memory { earlier, results } => results.find(key, earlier.snapshot.as_deref()),
        }
    }

    /// Returns `true` if extracts are kept for the next build.
    pub(crate) fn stores_extracts(&self) -> bool {
        self.stores_verified()
    }

    /// Returns the extract of a content that an earlier build has kept.
    pub(crate) fn extract(&self, content: &Digest) -> Option<&[u8]> {
        match self {
            Caches::Disk(caches) => caches.sources.as_ref()?.extract(content),
            Caches::Memory { .. } => None,
        }
    }

    /// Stores a compression result.
    pub(super) fn keep_result(&self, key: &ResultKey, outcome: &Outcome) {
        match self {
            Caches::Disk(DiskCaches { compress: Some(cache), .. }) => cache.keep(key, outcome),
            Caches::Disk(DiskCaches { compress: None, .. }) => {}
            Caches::Memory { results, .. } => results.keep(key, outcome),
        }
    }

    /// Writes the sources cache to disk.
    ///
    /// Problems are returned as warnings, since the cache should never cause a build to fail.
    pub(crate) fn keep(
        self,
        known: &[(FileStamp, SourceFacts)],
        news: News,
        sources: &Sources,
    ) -> Vec<Diagnostic> {
        let Caches::Disk(caches) = self else { return Vec::new() };
        let mut warnings = caches.compress.as_ref().map_or_else(Vec::new, CompressCache::warnings);
        if let Some(cache) = caches.sources {
            let files = sources.files.iter().zip(known).map(|(file, (stamp, facts))| {
                let path = [caches.root.as_slice(), b"/", &file.path].concat();
                (path.into_boxed_slice(), *stamp, *facts)
            });
            warnings.append(&mut cache.replace(&caches.root, files, news));
        }
        warnings
    }
}
