//! Lists the source files of a build: the source folder is walked, except for files that the build itself
//! writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cannery_base::{FileStamp, FileVersion};

use crate::builds::session::Session;
use crate::builds::stability;
use crate::builds::summary;
use crate::destination::Destination;
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::report::Report;
use crate::hosts::site_path::is_host_folder;
use crate::routes::{self, Routes};
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::snapshot::Earlier;
use crate::sources::source::Sources;
use crate::sources::unreadable::UnreadableFiles;
use crate::tree::folder_file::{self, Confinement};
use crate::tree::skip::{IGNORE_FILE, SkipRules};
use crate::tree::sparse;
use crate::tree::walk::{SourceFile, Unreadable, Walked, walk};

/// Walks the source folder and returns its files and a report. At this point, the report only contains
/// remarks about files.
pub(crate) fn sources(
    options: &Options,
    destination: &Destination,
    session: Option<&mut Session<'_>>,
) -> Result<(Sources, Report), Error> {
    let (rules, mut diagnostics) = skip_rules(options)?;

    // The root must be opened before the walk; otherwise, we could read from another folder that has taken its place in
    // the meantime.
    let confinement = Confinement::of(&options.sources, options.links_out);
    let list = || walk(&options.sources, &rules, options.links_out);
    let mut walked = match &session {
        Some(session) => stability::walk(&options.sources, &session.earlier, list)?,
        None => list()?,
    };
    diagnostics.append(&mut walked.diagnostics);
    if !options.allow_sparse {
        let severity = if session.is_some() { Severity::Warning } else { Severity::Error };
        diagnostics.append(&mut leave_out_sparse(&options.sources, &mut walked, severity));
    }

    let own = OwnFiles::of(options, destination);

    // The archive and the caches may be located in the source folder, but they must not become part of
    // the next archive.
    let mut cached: BTreeMap<&Path, u64> = BTreeMap::new();
    walked.files.retain(|file| {
        if own.is_archive(file) {
            let message = "is the archive that this build replaces, so it is left out";
            diagnostics.push(Diagnostic::note_that(&file.path, "archive-skipped", message));
            return false;
        }
        let Some(cache) = own.cache_of(&file.path) else { return true };
        *cached.entry(cache).or_default() += 1;
        false
    });
    // One note per cache is enough because a cache may have thousands of files.
    diagnostics.extend(cached.into_iter().map(|(cache, files)| {
        let message = match files {
            1 => "belongs to a cache of this build, so it is left out".to_owned(),
            files => format!("belongs to a cache of this build, so it is left out with its {files} files"),
        };
        Diagnostic::note_that(cache.as_os_str().as_bytes(), "cache-skipped", message)
    }));
    walked.folders.retain(|folder| own.cache_of(folder).is_none());
    keep_ignore_file(options, &mut walked.files);

    // Only folders that are being edited may have files from an earlier build, half-written files, or files to be
    // retried.
    let mut earlier = None;
    let mut unreadable = None;
    let mut unsettled = BTreeSet::new();
    if session.is_none() {
        diagnostics.extend(walked.unreadable.iter().map(|found| unexamined(found, Severity::Error, "")));
    }
    if let Some(session) = session {
        unsettled = stability::hold_back(&options.sources, &confinement, &mut walked.files, session);
        diagnostics.append(&mut keep_unreadable(&mut walked, &rules, session));
        diagnostics.append(&mut set_unreadable_aside(&options.sources, &mut walked.files, session));
        earlier = Some(session.earlier.clone());
        unreadable = Some(session.unreadable.clone());
    }

    let mut sources = Sources {
        root: options.sources.clone(),
        confinement,
        files: walked.files,
        folders: walked.folders,
        generated: Vec::new(),
        earlier,
        unsettled: Mutex::new(unsettled),
        precompressed: BTreeMap::new(),
        skipped: walked.skipped,
        unusable: walked.unusable,
        unreadable_before: unreadable.as_ref().map_or(0, UnreadableFiles::len),
        unreadable,
        script_pages: options.page_script.then(|| options.media_types.clone()),
    };
    diagnostics.append(&mut routes::drop_unservable(&mut sources));
    let report = Report { skipped: summary::skipped(&sources.skipped), diagnostics, ..Report::default() };
    Ok((sources, report))
}

/// Returns an error if a folder had a page for `/` or many more files in the last build, but no longer does. This might
/// mean that a program is currently replacing all of it. Listings should not count for `has_start_page`.
pub(crate) fn check_unfinished(
    options: &Options,
    sources: &Sources,
    has_start_page: bool,
    may_be_unfinished: bool,
) -> Result<(), Error> {
    let Some(earlier) = &sources.earlier else { return Ok(()) };
    let lacks_start_page = earlier.has_start_page() && !has_start_page;
    let is_emptied = earlier.has_files() && sources.files.is_empty();
    if may_be_unfinished && (lacks_start_page || is_emptied || earlier.lacks_most(sources.files.len())) {
        return Err(Error::Unfinished { folder: options.sources.clone() });
    }
    Ok(())
}

/// Returns the rules for leaving out names, and any remarks about the ignore file.
pub(crate) fn skip_rules(options: &Options) -> Result<(SkipRules, Vec<Diagnostic>), Error> {
    let mut rules = if options.default_ignores { SkipRules::default() } else { SkipRules::none() };
    let diagnostics = rules.add_ignore_file(&options.sources, options.links_out)?;
    options.ignore.iter().try_for_each(|pattern| rules.add_pattern(pattern))?;
    Ok((rules, diagnostics))
}

/// Checks that the site has a start page, because an empty folder would take the site offline.
///
/// If the folder had files in the last build and is empty now, then it is probably being replaced, so `--allow-empty` does
/// not apply.
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

/// Leaves out the sparse files with the largest holes until the holes of all others are within the limit.
///
/// A diagnostic of the given severity is returned for each.
fn leave_out_sparse(root: &Path, walked: &mut Walked, severity: Severity) -> Vec<Diagnostic> {
    let Walked { thin, files, .. } = walked;
    let measure = |path: Box<[u8]>| {
        let place = files.binary_search_by(|file| (*file.path).cmp(&path)).ok()?;
        let length = files[place].stamp.version.size;
        // Unreadable files are reported elsewhere.
        let file = folder_file::open(&folder_file::full_path(root, &path)).ok()?;
        let data_bytes = sparse::data_bytes(&file, length)?;
        Some((length - data_bytes.min(length), length, path))
    };
    let mut sparse: Vec<(u64, u64, Box<[u8]>)> =
        std::mem::take(thin).into_iter().filter_map(measure).collect();
    sparse.sort_unstable();

    // Accept files in ascending order of their holes until the limit is reached.
    let mut hole_bytes: u64 = 0;
    let is_accepted = |(holes, ..): &&(u64, u64, Box<[u8]>)| {
        hole_bytes = hole_bytes.saturating_add(*holes);
        hole_bytes <= sparse::HOLE_BYTES_MAX
    };
    let accepted = sparse.iter().take_while(is_accepted).count();

    let mut diagnostics = Vec::new();
    for (holes, length, path) in &sparse[accepted..] {
        let data_bytes = length - holes;
        let message = format!(
            "this file is sparse: only {data_bytes} of its {length} bytes are on the disk, and an archive would contain all of \
             them, so it is left out; remove it, exclude it with `.canneryignore`, or accept it with `--allow-sparse`"
        );
        diagnostics.push(Diagnostic { severity, ..Diagnostic::warning(path, "sparse-file", message) });
    }

    let left_out: BTreeSet<&[u8]> = sparse[accepted..].iter().map(|(_, _, path)| &**path).collect();
    files.retain(|file| !left_out.contains(&*file.path));
    diagnostics
}

/// Handles files and folders that the walk could not examine in a folder that is being edited. Returns a remark for each.
///
/// The files of the last build are used. If there are none, the name is left out, except for folders of hosts, since the default
/// site would answer in their place. In contrast, a single build fails, as its archive might be deployed without a part of the
/// site.
fn keep_unreadable(walked: &mut Walked, rules: &SkipRules, session: &mut Session<'_>) -> Vec<Diagnostic> {
    if walked.unreadable.is_empty() {
        return Vec::new();
    }

    let LastVersions { mut files, are_known } =
        LastVersions::of(&walked.unreadable, session.earlier.files(), rules);
    let mut diagnostics = Vec::new();
    for (found, is_known) in walked.unreadable.iter().zip(are_known) {
        let is_host = *found.path == *b"_hosts" || is_host_folder(&found.path);
        let (severity, outcome) = match (is_known, is_host) {
            (true, _) => (Severity::Warning, "; its last version is served meanwhile"),
            (false, false) => (Severity::Warning, "; it is left out meanwhile"),
            (false, true) => (Severity::Error, "; without it, the default site would answer in its place"),
        };
        diagnostics.push(unexamined(found, severity, outcome));
    }

    // Files that can still be examined may have changed.
    files.retain(|kept| walked.files.binary_search_by(|file| file.path.cmp(&kept.path)).is_err());
    session.earlier.held_back.extend(files.iter().map(|file| file.path.clone()));
    walked.files.append(&mut files);
    walked.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));

    // Folders of these files are listed like others.
    let parents = |path: &[u8]| {
        let ends = (0..path.len()).filter(|place| path[*place] == b'/');
        ends.map(|end| path[..end].into()).collect::<Vec<Box<[u8]>>>()
    };
    let below: BTreeSet<Box<[u8]>> =
        session.earlier.held_back.iter().flat_map(|path| parents(path)).collect();
    walked.folders.extend(below);
    walked.folders.sort_unstable();
    walked.folders.dedup();
    diagnostics
}

/// Files of the last build in place of those that can't be examined.
struct LastVersions {
    files: Vec<SourceFile>,
    /// For each name that can't be examined, whether the last build had it, or a file below it.
    are_known: Vec<bool>,
}

impl LastVersions {
    /// Looks up names, which must be sorted by path, among the files of the last build. Files that the rules leave out by now don't
    /// return.
    fn of<'f>(
        unreadable: &[Unreadable],
        files: impl Iterator<Item = (&'f [u8], FileStamp)>,
        rules: &SkipRules,
    ) -> LastVersions {
        let mut last = LastVersions { files: Vec::new(), are_known: vec![false; unreadable.len()] };
        for (path, stamp) in files {
            let folders = (0..path.len()).filter(|place| path[*place] == b'/').map(|end| &path[..end]);
            let places: Vec<usize> = std::iter::once(&b""[..])
                .chain(folders.clone())
                .chain([path])
                .filter_map(|above| unreadable.binary_search_by(|found| (*found.path).cmp(above)).ok())
                .collect();
            if places.is_empty()
                || rules.verdict(path, false).is_some()
                || folders.clone().any(|folder| rules.verdict(folder, true).is_some())
            {
                continue;
            }

            places.into_iter().for_each(|place| last.are_known[place] = true);
            last.files.push(SourceFile { path: path.into(), stamp });
        }
        last
    }
}

/// Creates a remark about a file or folder that the walk could not examine.
fn unexamined(found: &Unreadable, severity: Severity, outcome: &str) -> Diagnostic {
    let path: &[u8] = if found.path.is_empty() { b"." } else { &found.path };
    let code = if found.is_folder { "unreadable-folder" } else { "unreadable-file" };
    let warning = Diagnostic::warning_that(path, code, format_args!("{}{outcome}", found.problem));
    Diagnostic { severity, ..warning }
}

/// Handles files that could not be read in an earlier attempt, returning a warning for each.
///
/// If the last build had such a file, that version is used; otherwise, it is left out.
fn set_unreadable_aside(
    root: &Path,
    files: &mut Vec<SourceFile>,
    session: &mut Session<'_>,
) -> Vec<Diagnostic> {
    let Session { unreadable, earlier, .. } = session;
    if unreadable.is_empty() {
        return Vec::new();
    }

    let place =
        |files: &[SourceFile], path: &[u8]| files.binary_search_by(|file| (*file.path).cmp(path)).ok();
    unreadable.refresh(root, |path| place(files, path).map(|place| files[place].stamp));

    files.retain(|file| !unreadable.contains(&file.path) || earlier.known(&file.path).is_some());
    for file in files.iter_mut().filter(|file| unreadable.contains(&file.path)) {
        if let Some(known) = earlier.known(&file.path) {
            file.stamp = known.stamp;
            earlier.held_back.insert(file.path.clone());
        }
    }
    unreadable.warnings(|path| earlier.known(path).is_some())
}

/// Files that are written by the build itself (i.e. the archive and the caches) and may be located in
/// the source folder.
struct OwnFiles {
    /// The existing archive. This might have several names, so we need to compare device and inode.
    archive: Option<FileVersion>,
    /// Paths relative to the source folder.
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

    /// Returns the cache that contains this path.
    fn cache_of(&self, path: &[u8]) -> Option<&Path> {
        let path = Path::new(OsStr::from_bytes(path));
        self.caches.iter().map(PathBuf::as_path).find(|cache| path.starts_with(cache))
    }
}

/// Adds the ignore file. It is left out by the walk, but `extract` should be able to restore it.
fn keep_ignore_file(options: &Options, files: &mut Vec<SourceFile>) {
    let found = fs::metadata(options.sources.join(IGNORE_FILE)).ok().filter(fs::Metadata::is_file);
    let Some(found) = found else { return };
    if let Err(place) = files.binary_search_by(|file| (*file.path).cmp(IGNORE_FILE.as_bytes())) {
        files.insert(place, SourceFile { path: IGNORE_FILE.as_bytes().into(), stamp: FileStamp::of(&found) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_versions_are_found_in_a_single_pass() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let stamp = FileStamp::of(&fs::metadata(folder.path().join("a")).unwrap());
        let unreadable = |path: &str| Unreadable {
            path: path.as_bytes().into(),
            is_folder: true,
            problem: "cannot be read".to_owned(),
        };
        let find = |paths: &[&str], files: &[&str], rules: &SkipRules| {
            let unreadable: Vec<_> = paths.iter().map(|path| unreadable(path)).collect();
            let found =
                LastVersions::of(&unreadable, files.iter().map(|path| (path.as_bytes(), stamp)), rules);
            let files = found.files.into_iter().map(|file| String::from_utf8(file.path.into()).unwrap());
            (files.collect::<Vec<_>>(), found.are_known)
        };

        let mut rules = SkipRules::default();
        let files = ["b/x/1.html", "a.html", "b.html", "b/2.html", "a/b/3.html", "c"];
        assert_eq!(
            find(&["a/b", "b", "b/x", "c", "d"], &files, &rules),
            (
                ["b/x/1.html", "b/2.html", "a/b/3.html", "c"].map(str::to_owned).to_vec(),
                vec![true, true, true, true, false]
            )
        );
        assert_eq!(find(&[""], &files, &rules).0, files);

        // Their patterns are new.
        rules.add_pattern("2.html").unwrap();
        rules.add_pattern("/b/x/").unwrap();
        assert_eq!(find(&["b"], &files, &rules), (Vec::new(), vec![false]));

        // This took minutes.
        let many: Vec<String> = (0..40_000).map(|number| format!("{number:05}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(find(&many, &many, &SkipRules::none()).0, many);
    }
}
