//! What a build needs before it can read contents: checked options, listed files, parsed rules, caches.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::compress_cache::CompressCache;
use crate::content::Contents;
use cannery_site::SITE_FIELDS_MAX;

use crate::diagnostic::{Diagnostic, Severity};
use crate::encode::Encoding;
use crate::error::Error;
use crate::facts::Facts;
use crate::headers::{self, HeaderRule};
use crate::host::covers;
use crate::options::Options;
use crate::pattern::PatternPiece;
use crate::progress::Progress;
use crate::publish::Staging;
use crate::read::{Reading, store_identity};
use crate::report::Report;
use crate::routes::{self, Routes};
use crate::skip::{IGNORE_FILE, PatternError, SkipRules};
use crate::source::{SourceId, Sources};
use crate::sources_cache::{SourcesCache, Verified};
use crate::store::Store;
use crate::tell;
use crate::walk::{LinksOut, SourceFile, Stamp, walk};

/// Makes sure that the options make sense together.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    if options.encoders.is_empty() {
        return Err(Error::NoEncoder);
    }
    if let Some(value) = &options.cache_control
        && !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
    {
        return Err(Error::CacheControl { value: value.clone() });
    }
    Ok(())
}

/// Lists the source folder, without the archive itself if that is to stand in it.
pub(crate) fn sources(options: &Options, staging: &Staging) -> Result<(Sources, Report), Error> {
    let mut rules = if options.default_ignores { SkipRules::default() } else { SkipRules::none() };
    let mut diagnostics = rules.add_ignore_file(&options.sources)?;
    options.ignore.iter().try_for_each(|pattern| rules.add_pattern(pattern))?;
    let links_out = if options.follow_links { LinksOut::Allowed } else { LinksOut::Reported };
    let mut walked = walk(&options.sources, &rules, links_out)?;
    diagnostics.append(&mut walked.diagnostics);
    let own = OwnFiles::of(options, staging);
    walked.files.retain(|file| {
        let Some((code, what)) = own.find(file) else { return true };
        diagnostics.push(Diagnostic::note(&file.path, code, format!("is {what} this build: left out")));
        false
    });
    walked.folders.retain(|folder| !own.is_cached(folder));
    keep_ignore_file(options, &mut walked.files);
    let mut sources = Sources {
        root: options.sources.clone(),
        files: walked.files,
        folders: walked.folders,
        generated: Vec::new(),
    };
    diagnostics.append(&mut routes::drop_unservable(&mut sources));
    let report = Report { skipped: tell::skipped(&walked.skipped), diagnostics, ..Report::default() };
    Ok((sources, report))
}

/// Makes sure that there is a site to publish: an empty folder in its place would take the site off the network.
pub(crate) fn check_start_page(options: &Options, sources: &Sources, routes: &Routes) -> Result<(), Error> {
    if options.allow_empty {
        return Ok(());
    }
    let folder = || options.sources.clone();
    if sources.files.is_empty() {
        return Err(Error::Empty { folder: folder() });
    }
    if routes.has_start_page() { Ok(()) } else { Err(Error::NoStartPage { folder: folder() }) }
}

/// What a build writes, which may stand in the source folder: the archive and the caches.
struct OwnFiles {
    /// The archive's device and inode, if there is one already: it may have other names.
    archive: Option<(u64, u64)>,
    /// Relative to the source folder.
    caches: Vec<PathBuf>,
}

impl OwnFiles {
    fn of(options: &Options, staging: &Staging) -> OwnFiles {
        let root = fs::canonicalize(&options.sources).unwrap_or_else(|_| options.sources.clone());
        let caches = [&options.compress_cache, &options.sources_cache].into_iter().flatten();
        let within = |path: &PathBuf| {
            let path = fs::canonicalize(path).ok()?;
            path.strip_prefix(&root).ok().map(Path::to_owned)
        };
        let archive = fs::metadata(staging.place()).ok().map(|found| (found.dev(), found.ino()));
        OwnFiles { archive, caches: caches.filter_map(within).collect() }
    }

    /// Which of them a source file is, if it is one: the code of the note, and words for it.
    fn find(&self, file: &SourceFile) -> Option<(&'static str, &'static str)> {
        if self.archive == Some((file.stamp.device, file.stamp.inode)) {
            return Some(("archive-skipped", "the archive that is replaced by"));
        }
        self.is_cached(&file.path).then_some(("cache-skipped", "part of a cache of"))
    }

    fn is_cached(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.caches.iter().any(|cache| path.starts_with(cache))
    }
}

/// The ignore file is hidden from the walk, but it is a file of the folder: `extract` gives it back.
fn keep_ignore_file(options: &Options, files: &mut Vec<SourceFile>) {
    let found = fs::metadata(options.sources.join(IGNORE_FILE)).ok().filter(fs::Metadata::is_file);
    let Some(found) = found else { return };
    if let Err(place) = files.binary_search_by(|file| (*file.path).cmp(IGNORE_FILE.as_bytes())) {
        files.insert(place, SourceFile { path: IGNORE_FILE.as_bytes().into(), stamp: Stamp::of(&found) });
    }
}

/// Parses the `_headers` of each site: the default one's first, then those of the hosts in their order.
pub(crate) fn header_rules(routes: &mut Routes, sources: &Sources) -> Result<Vec<Vec<HeaderRule>>, Error> {
    let mut rules = vec![Vec::new(); routes.hosts.len() + 1];
    for file in std::mem::take(&mut routes.header_files) {
        if !file.folder.is_empty() {
            routes.warn(
                sources.path(file.id),
                "headers-not-at-root",
                "is not applied: only at the root of a site it is",
            );
            continue;
        }
        let mut text = Vec::new();
        sources.read(file.id, &mut text)?;
        let name = String::from_utf8_lossy(sources.path(file.id)).into_owned();
        let (parsed, diagnostics) = headers::parse(&text, &name);
        routes.diagnostics.extend(diagnostics);
        rules[file.host.map_or(0, |host| host as usize + 1)] = parsed;
    }
    // What the root's file says of one host holds on the site of that host too, before what the site says itself.
    for (place, (name, own_site)) in (1..).zip(&routes.hosts) {
        if *own_site {
            let below = name.strip_prefix("*.");
            let is_of = |host: &String| {
                covers(host, name)
                    || below.is_some_and(|below| host.ends_with(below) && host.len() > below.len())
            };
            let of_root = rules[0].iter().filter(|rule| rule.host.as_ref().is_some_and(is_of));
            let all = of_root.chain(&rules[place]).cloned().collect();
            rules[place] = all;
        }
    }
    let with_rules: Vec<usize> = (0..rules.len()).filter(|place| !rules[*place].is_empty()).collect();
    for place in with_rules {
        check_fields(routes, &rules[place]);
        routes.scope(place.checked_sub(1).and_then(|host| u32::try_from(host).ok()), b"/");
    }
    // What the default site says for everybody holds on hosts that have rules but no site.
    for (place, (_, own_site)) in (1..).zip(&routes.hosts) {
        if !own_site {
            rules[place] = rules[0].clone();
        }
    }
    Ok(rules)
}

/// Reports rules of which more fields could come together for one path than the server has room for.
fn check_fields(routes: &mut Routes, rules: &[HeaderRule]) {
    // By the first segment, if it is a literal: paths have one of them.
    let mut by_start: HashMap<&[u8], usize> = HashMap::new();
    let mut everywhere = 0;
    for rule in rules {
        let start = match rule.pattern.pieces.first() {
            Some(PatternPiece::Literal(literal)) => {
                let slash = literal.iter().skip(1).position(|byte| *byte == b'/').map(|place| place + 1);
                slash.map(|slash| &literal[..slash]).or_else(|| rule.pattern.is_static().then_some(literal))
            }
            _ => None,
        };
        let count = start.map_or(&mut everywhere, |start| by_start.entry(start).or_default());
        *count += rule.fields.len();
    }
    let most = everywhere + by_start.values().copied().max().unwrap_or(0);
    if let Some(rule) = rules.last().filter(|_| most > SITE_FIELDS_MAX) {
        let message = format!(
            "up to {most} fields could come together for one path, of at most {SITE_FIELDS_MAX}; use fewer rules"
        );
        let severity = Severity::Error;
        routes.diagnostics.push(Diagnostic {
            severity,
            file: rule.file.to_string(),
            line: Some(rule.line),
            code: "header-too-many",
            message,
        });
    }
}

/// Takes files that the options call immutable for fingerprinted ones: those that a pattern matches, and all in a folder
/// that one matches, as in gitignore. Reports the patterns that match nothing.
pub(crate) fn mark_immutable(
    options: &Options,
    sources: &Sources,
    contents: &mut Contents,
) -> Result<Vec<Diagnostic>, Error> {
    if options.immutable.is_empty() {
        return Ok(Vec::new());
    }
    let patterns = globs(&options.immutable)?;
    let mut used = HashSet::new();
    for (file, known) in sources.files.iter().zip(&mut contents.of_source) {
        let path = OsStr::from_bytes(&file.path);
        if let Match::Ignore(glob) = patterns.matched_path_or_any_parents(path, false) {
            known.fingerprinted = true;
            used.insert(glob.original());
        }
    }

    let mut warnings = Vec::new();
    for pattern in options.immutable.iter().filter(|pattern| !used.contains(pattern.as_str())) {
        // What a later pattern has decided may have matched this one too.
        let alone = globs(std::slice::from_ref(pattern))?;
        let matches = |file: &SourceFile| {
            !alone.matched_path_or_any_parents(OsStr::from_bytes(&file.path), false).is_none()
        };
        if !sources.files.iter().any(matches) {
            let message = format!("`--immutable {pattern}` matches no file");
            warnings.push(Diagnostic::warning(b".", "immutable-unmatched", message));
        }
    }
    Ok(warnings)
}

fn globs(patterns: &[String]) -> Result<Gitignore, PatternError> {
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|source| PatternError::new(pattern, source))?;
    }
    builder.build().map_err(|source| PatternError::new(&patterns.join(", "), source))
}

/// Stores the contents of files that are not served under their own name as they are, whatever else is
/// stored of them: `extract` gives them back from there.
pub(crate) fn keep_as_they_are(
    hidden: &[SourceId],
    sources: &Sources,
    contents: &mut Contents,
    store: &mut Store,
) -> Result<(), Error> {
    for id in hidden {
        let place = contents.of_source[*id as usize].content as usize;
        let content = &mut contents.all[place];
        if content.forms.is_empty() && content.wanted {
            let (digest, length) = (content.digest, content.length);
            content.forms.push(store_identity(sources, *id, &digest, length, None, store)?);
        }
    }
    Ok(())
}

/// What is remembered between builds, if anything is.
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
        let (cache, known) = (self.compress.as_ref(), self.sources.as_ref());
        Encoding { options, sources, cache, known, progress }
    }

    /// Remembers what this build has found out. Returns what went wrong with the caches, which never ends a build.
    pub(crate) fn keep(
        self,
        known: Vec<(Stamp, Facts)>,
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
