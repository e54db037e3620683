//! The caches between builds: compressed contents, and digests of source files.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use cannery_base::FileStamp;

use crate::compress_cache::CompressCache;
use crate::diagnostic::Diagnostic;
use crate::encode::Encoding;
use crate::error::Error;
use crate::options::Options;
use crate::progress::Progress;
use crate::read::Reading;
use crate::source::{SourceId, Sources};
use crate::source_facts::SourceFacts;
use crate::sources_cache::{SourcesCache, Verified};

/// The caches in use.
pub(crate) struct Caches {
    compress: Option<CompressCache>,
    sources: Option<SourcesCache>,
    /// The source folder as an absolute path.
    root: Vec<u8>,
}

impl Caches {
    pub(crate) fn open(options: &Options) -> Result<Caches, Error> {
        let root = fs::canonicalize(&options.sources).map_err(Error::read(options.sources.clone()))?;
        Ok(Caches {
            compress: options.compress_cache.as_deref().map(CompressCache::open).transpose()?,
            sources: options.sources_cache.as_deref().map(SourcesCache::load).transpose()?,
            root: root.into_os_string().as_bytes().to_vec(),
        })
    }

    pub(crate) fn reading<'a>(
        &'a self,
        options: &'a Options,
        sources: &'a Sources,
        control: &'a [SourceId],
        progress: &'a dyn Progress,
    ) -> Reading<'a> {
        Reading { options, sources, control, cache: self.sources.as_ref(), root: &self.root, progress }
    }

    pub(crate) fn encoding<'a>(
        &'a self,
        options: &'a Options,
        sources: &'a Sources,
        progress: &'a dyn Progress,
    ) -> Encoding<'a> {
        Encoding { options, sources, cache: self.compress.as_ref(), known: self.sources.as_ref(), progress }
    }

    /// Stores the results of this build. Returns warnings, which never fail a build.
    pub(crate) fn keep(
        self,
        known: Vec<(FileStamp, SourceFacts)>,
        verified: Verified,
        sources: &Sources,
    ) -> Vec<Diagnostic> {
        let mut warnings = self.compress.as_ref().map_or_else(Vec::new, CompressCache::warnings);
        if let Some(cache) = self.sources {
            let files = sources.files.iter().zip(known).map(|(file, (stamp, facts))| {
                let path = [self.root.as_slice(), b"/", &file.path].concat();
                (path.into_boxed_slice(), stamp, facts)
            });
            warnings.append(&mut cache.replace(&self.root, files, verified));
        }
        warnings
    }
}
