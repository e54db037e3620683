//! Source files of a build: the walk of the source folder, except files that the build itself writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cannery_base::{FileStamp, FileVersion};

use crate::destination::Destination;
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::options::Options;
use crate::page_script::PageScript;
use crate::report::Report;
use crate::routes::{self, Routes};
use crate::session::Session;
use crate::skip::{IGNORE_FILE, SkipRules};
use crate::snapshot::Earlier;
use crate::source::Sources;
use crate::stability;
use crate::summary;
use crate::walk::{LinksOut, SourceFile, walk};

/// Lists the source folder.
pub(crate) fn sources(
    options: &Options,
    destination: &Destination,
    session: Option<&mut Session<'_>>,
) -> Result<(Sources, Report), Error> {
    let mut rules = if options.default_ignores { SkipRules::default() } else { SkipRules::none() };
    let mut diagnostics = rules.add_ignore_file(&options.sources)?;
    options.ignore.iter().try_for_each(|pattern| rules.add_pattern(pattern))?;
    let links_out = if options.follow_links { LinksOut::Allowed } else { LinksOut::Reported };
    let list = || walk(&options.sources, &rules, links_out);
    let mut walked = match &session {
        Some(session) => stability::walk(&options.sources, &session.earlier, list)?,
        None => list()?,
    };
    diagnostics.append(&mut walked.diagnostics);

    let own = OwnFiles::of(options, destination);
    let mut cached: BTreeMap<&Path, u64> = BTreeMap::new();
    walked.files.retain(|file| {
        if own.is_archive(file) {
            let message = "is the archive that this build replaces: left out";
            diagnostics.push(Diagnostic::note(&file.path, "archive-skipped", message));
            return false;
        }
        let Some(cache) = own.cache_of(&file.path) else { return true };
        *cached.entry(cache).or_default() += 1;
        false
    });
    // One note per cache, which may have thousands of files.
    diagnostics.extend(cached.into_iter().map(|(cache, files)| {
        let message = match files {
            1 => "belongs to a cache of this build: left out".to_owned(),
            files => format!("belongs to a cache of this build, with {files} files: left out"),
        };
        Diagnostic::note(cache.as_os_str().as_bytes(), "cache-skipped", message)
    }));
    walked.folders.retain(|folder| own.cache_of(folder).is_none());
    keep_ignore_file(options, &mut walked.files);

    let mut earlier = None;
    let mut unsettled = BTreeSet::new();
    if let Some(session) = session {
        unsettled = stability::hold_back(&options.sources, &mut walked.files, session);
        earlier = Some(session.earlier.clone());
    }

    let mut sources = Sources {
        root: options.sources.clone(),
        files: walked.files,
        folders: walked.folders,
        generated: Vec::new(),
        earlier,
        unsettled: Mutex::new(unsettled),
        precompressed: BTreeMap::new(),
        skipped: walked.skipped,
        script: options.page_script.as_ref().map(|path| PageScript::new(path, &options.media_types)),
    };
    diagnostics.append(&mut routes::drop_unservable(&mut sources));
    let report = Report { skipped: summary::skipped(&sources.skipped), diagnostics, ..Report::default() };
    Ok((sources, report))
}

/// Checks that the site has a start page: an empty folder would take the site offline. A folder that had files in the last
/// build is being replaced if it has none.
pub(crate) fn check_start_page(options: &Options, sources: &Sources, routes: &Routes) -> Result<(), Error> {
    let folder = || options.sources.clone();
    if sources.files.is_empty() && sources.earlier.as_ref().is_some_and(Earlier::has_files) {
        return Err(Error::Empty { folder: folder() });
    }
    if options.allow_empty {
        return Ok(());
    }
    if sources.files.is_empty() {
        return Err(Error::Empty { folder: folder() });
    }
    if routes.has_start_page() { Ok(()) } else { Err(Error::NoStartPage { folder: folder() }) }
}

/// Files of the build that may be in the source folder: the archive and the caches.
struct OwnFiles {
    /// The existing archive, which may have several names.
    archive: Option<FileVersion>,
    /// Relative to the source folder.
    caches: Vec<PathBuf>,
}

impl OwnFiles {
    fn of(options: &Options, destination: &Destination) -> OwnFiles {
        let root = fs::canonicalize(&options.sources).unwrap_or_else(|_| options.sources.clone());
        let caches = [&options.compress_cache, &options.sources_cache].into_iter().flatten();
        let within = |path: &PathBuf| {
            let path = fs::canonicalize(path).ok()?;
            path.strip_prefix(&root).ok().map(Path::to_owned)
        };
        OwnFiles { archive: destination.existing(), caches: caches.filter_map(within).collect() }
    }

    fn is_archive(&self, file: &SourceFile) -> bool {
        self.archive.is_some_and(|archive| archive.is_same_file(&file.stamp.version))
    }

    /// Returns the cache that a path belongs to.
    fn cache_of(&self, path: &[u8]) -> Option<&Path> {
        let path = Path::new(OsStr::from_bytes(path));
        self.caches.iter().map(PathBuf::as_path).find(|cache| path.starts_with(cache))
    }
}

/// Adds the ignore file, which the walk leaves out, so that `extract` restores it.
fn keep_ignore_file(options: &Options, files: &mut Vec<SourceFile>) {
    let found = fs::metadata(options.sources.join(IGNORE_FILE)).ok().filter(fs::Metadata::is_file);
    let Some(found) = found else { return };
    if let Err(place) = files.binary_search_by(|file| (*file.path).cmp(IGNORE_FILE.as_bytes())) {
        files.insert(place, SourceFile { path: IGNORE_FILE.as_bytes().into(), stamp: FileStamp::of(&found) });
    }
}
