//! Walks the source folder. This produces a sorted list of files and folders.
//!
//! The walk only looks at names and inodes, i.e. no file is opened, and the order of directory entries does not matter. Since
//! URLs can contain any byte, names are bytes rather than text.
//!
//! Symlinks are followed, with some exceptions. Links out of the root are reported or left out, unless they are allowed. Links to
//! a folder above are left out, as are links into kernel file systems such as `/proc` (see `boundary`). If there are several links
//! to the same folder, it is read once per depth. Since each level of links within links can double the number of paths to a
//! folder, there is a limit for this number.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_base::FileStamp;
use rayon::prelude::*;

use crate::ground::diagnostic::Diagnostic;
use crate::tree::boundary::{Boundary, LinksOut, Place};
use crate::tree::folder_file::kind_of;
use crate::tree::skip::{SkipReason, SkipRules};
use crate::tree::sparse::may_be_sparse;

/// Maximum number of paths to the same folder through links within links.
const LINKED_PATHS_MAX: usize = 256;

/// Maximum number of links out of the root to report individually.
const OUTSIDE_REPORTED_MAX: usize = 5;

/// Code of warnings about links out of the root.
const OUTSIDE: &str = "symlink-outside";

/// Folder in the root of a file system for files recovered after a crash. Typically, only root may read it.
const RECOVERED: &[u8] = b"lost+found";

/// The result of a walk. All lists are sorted by path, byte by byte.
///
/// Paths are relative to the source root, with segments separated by `/`. They do not begin or end
/// with `/`.
#[derive(Debug, Default)]
pub struct Walked {
    /// Regular files. Symlinks are resolved.
    pub files: Vec<SourceFile>,
    /// Folders that were read. The first is the root, whose path is empty.
    pub folders: Vec<Box<[u8]>>,
    /// Names that were skipped by a rule. Names below a skipped folder are not listed.
    pub skipped: Vec<Skipped>,
    /// Files that have far fewer blocks than their length would need.
    pub thin: Vec<Box<[u8]>>,
    /// Links and special files that were left out because there is no file that may be published at this
    /// path.
    pub unusable: Vec<Box<[u8]>>,
    /// Files and folders that exist, but could not be examined.
    pub unreadable: Vec<Unreadable>,
    /// Remarks about names that were left out.
    pub diagnostics: Vec<Diagnostic>,
}

/// A file in the source folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceFile {
    /// Path relative to the source root.
    pub path: Box<[u8]>,
    /// The version of the file. We assume that the content remains the same for as long as the
    /// version does.
    pub stamp: FileStamp,
}

/// A name that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Path relative to the source root.
    pub path: Box<[u8]>,
    /// `true` for folders. Nothing below them was listed.
    pub is_folder: bool,
    /// The rule that applied.
    pub reason: SkipReason,
}

/// A file or folder that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// Path relative to the source root.
    pub path: Box<[u8]>,
    /// Whether this is a folder. If so, nothing below it was listed, or only a part.
    pub is_folder: bool,
    /// The reason, as a predicate of the path.
    pub problem: String,
}

/// Why a walk cannot start. All later problems are diagnostics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalkError {
    /// The source root does not exist or cannot be read.
    #[error("cannot read the source folder {}: {source}; check that it exists and may be read", path.display())]
    Root {
        /// The source root from the options.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The source root is not a folder.
    #[error("the source {} is not a folder; name the folder that holds the site", path.display())]
    NotAFolder {
        /// The source root from the options.
        path: PathBuf,
    },
}

/// Lists everything in `root` that isn't skipped by `rules`, using all threads of the current pool.
///
/// # Errors
///
/// Returns an error if the root cannot be read or is not a folder.
pub fn walk(root: &Path, rules: &SkipRules, links_out: LinksOut) -> Result<Walked, WalkError> {
    let root_error = |source| WalkError::Root { path: root.to_owned(), source };
    let metadata = fs::metadata(root).map_err(root_error)?;
    if !metadata.is_dir() {
        return Err(WalkError::NotAFolder { path: root.to_owned() });
    }

    // We must be able to read the root. Callers decide about unreadable folders further
    // down.
    fs::read_dir(root).map_err(root_error)?;
    // Being able to read a folder is not enough: without permission to search it, we would not be
    // able to look up the names in it.
    fs::metadata(root.join(".")).map_err(root_error)?;
    let boundary = Boundary::of(root, links_out).map_err(root_error)?;

    let walk = Walk { root, boundary, rules };
    let mut walked = Walked::default();
    let mut linked_paths = HashMap::new();
    let mut level = vec![Folder::root(&metadata)];

    // Read all folders of the same depth in parallel. We should not recurse here, because this might overflow
    // the stack.
    while !level.is_empty() {
        level
            .sort_unstable_by(|one, other| (one.identity(), &one.path).cmp(&(other.identity(), &other.path)));
        let groups: Vec<&[Folder]> =
            level.chunk_by(|one, other| one.identity() == other.identity()).collect();
        let readings: Vec<Vec<Reading>> = groups.par_iter().map(|group| walk.read(group)).collect();

        let mut next = Vec::new();
        for reading in readings.into_iter().flatten() {
            next.extend(reading.subfolders);
            walked.append(reading.found);
        }

        // We need to sort these first: the order decides which paths are over the limit.
        next.sort_unstable_by(|one: &Folder, other| one.path.cmp(&other.path));
        next.retain(|folder| walked.admit(folder, &mut linked_paths) == Admission::Admitted);
        level = next;
    }

    walked.sort();
    walked.summarize_links_out();
    Ok(walked)
}

impl Walked {
    /// Adds the lists of another walk.
    fn append(&mut self, mut other: Walked) {
        self.files.append(&mut other.files);
        self.folders.append(&mut other.folders);
        self.skipped.append(&mut other.skipped);
        self.thin.append(&mut other.thin);
        self.unusable.append(&mut other.unusable);
        self.unreadable.append(&mut other.unreadable);
        self.diagnostics.append(&mut other.diagnostics);
    }

    /// Counts a path to a folder when it goes through links within links.
    ///
    /// There is a warning about the first path that exceeds the limit.
    fn admit(&mut self, folder: &Folder, linked_paths: &mut HashMap<(u64, u64), usize>) -> Admission {
        if folder.links < 2 {
            return Admission::Admitted;
        }
        let paths = linked_paths.entry(folder.identity()).or_default();
        *paths += 1;
        if *paths <= LINKED_PATHS_MAX {
            return Admission::Admitted;
        }
        if *paths == LINKED_PATHS_MAX + 1 {
            let message = format!(
                "more than {LINKED_PATHS_MAX} paths through nested symlinks lead to this folder, so it is left out at \
                 this path and later ones; remove some of the links"
            );
            self.diagnostics.push(Diagnostic::warning(&folder.path, "symlink-fan", message));
        }
        Admission::LeftOut
    }

    /// Keeps only the first few warnings about links out of the root.
    ///
    /// The remaining ones are replaced with their number.
    fn summarize_links_out(&mut self) {
        let mut outside = 0;
        self.diagnostics.retain(|diagnostic| {
            outside += usize::from(diagnostic.code == OUTSIDE);
            diagnostic.code != OUTSIDE || outside <= OUTSIDE_REPORTED_MAX
        });
        if outside > OUTSIDE_REPORTED_MAX {
            let more = outside - OUTSIDE_REPORTED_MAX;
            let message = format!("{more} more symlinks lead out of the source folder");
            self.diagnostics.push(Diagnostic::warning(b".", OUTSIDE, message));
        }
    }

    fn sort(&mut self) {
        // Paths are unique, so an unstable sort is still deterministic.
        self.files.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.folders.par_sort_unstable();
        self.skipped.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.unusable.sort_unstable();
        self.unreadable.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.diagnostics.sort_by(|a, b| (&a.file, &a.message).cmp(&(&b.file, &b.message)));
    }
}

/// A folder that we have yet to read.
struct Folder {
    path: Box<[u8]>,
    lineage: Arc<Lineage>,
    /// Number of symlinks in the path.
    links: u32,
    /// If the path has left the root, the target of the link that did.
    outside: Option<Arc<Path>>,
}

impl Folder {
    fn root(metadata: &Metadata) -> Folder {
        Folder { path: Box::default(), lineage: Lineage::root(metadata), links: 0, outside: None }
    }

    fn identity(&self) -> (u64, u64) {
        (self.lineage.device, self.lineage.inode)
    }
}

/// Identifies a folder and all folders above it.
struct Lineage {
    device: u64,
    inode: u64,
    parent: Option<Arc<Lineage>>,
}

impl Lineage {
    fn root(metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: None })
    }

    fn child(self: &Arc<Lineage>, metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: Some(Arc::clone(self)) })
    }

    fn contains(&self, metadata: &Metadata) -> bool {
        let mut ancestors = std::iter::successors(Some(self), |lineage| lineage.parent.as_deref());
        ancestors.any(|ancestor| (ancestor.device, ancestor.inode) == (metadata.dev(), metadata.ino()))
    }
}

/// Whether to follow a path to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Admitted,
    /// Too many paths lead to the folder through links within links.
    LeftOut,
}

/// Names found in a folder, and folders to read next.
#[derive(Default)]
struct Reading {
    found: Walked,
    subfolders: Vec<Folder>,
}

/// State shared by all folders of a walk.
struct Walk<'a> {
    root: &'a Path,
    boundary: Boundary,
    rules: &'a SkipRules,
}

/// A name in a folder, with everything that needs a system call.
struct Entry {
    name: Vec<u8>,
    is_link: bool,
    metadata: io::Result<Metadata>,
    place: Place,
}

impl Walk<'_> {
    /// Reads a folder only once, for all paths that lead to it.
    fn read(&self, paths: &[Folder]) -> Vec<Reading> {
        let Some(first) = paths.first() else { return Vec::new() };
        let mut entries = Vec::new();
        let mut read_error = None;

        // For an empty path, this appends `/` to the root. This is fine even if the root is a symlink.
        match fs::read_dir(self.root.join(OsStr::from_bytes(&first.path))) {
            Ok(found) => {
                for entry in found {
                    match entry {
                        Ok(entry) => entries.push(self.examine(&entry)),
                        Err(error) => {
                            read_error = Some(format!(
                                "cannot be read to the end ({error}), so files may be missing; check the disk, and build again"
                            ));
                            break;
                        }
                    }
                }
            }
            // The folder was removed after we had listed its parent.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            // Nothing in it is part of a site.
            Err(_) if *first.path == *RECOVERED => return Vec::new(),
            Err(error) => {
                let problem = format!(
                    "cannot be read ({error}); make it readable and searchable for this user, or name it in `.canneryignore`"
                );
                return paths.iter().map(|folder| Reading::unreadable(folder, problem.clone())).collect();
            }
        }

        // The entries are the same for all paths, but they may be treated differently by rules.
        let reading = |folder: &Folder| {
            let mut reading = Reading::default();
            reading.found.folders.push(folder.path.clone());
            for entry in &entries {
                reading.add(folder, entry, self);
            }
            if let Some(message) = &read_error {
                reading.add_unreadable(folder.path.clone(), true, message.clone());
            }
            reading
        };
        paths.iter().map(reading).collect()
    }

    fn examine(&self, entry: &fs::DirEntry) -> Entry {
        let name = entry.file_name().into_vec();
        // Unlike for links, `DirEntry::metadata` does not need a path lookup in the kernel here.
        let found = entry.metadata();
        let is_link = found.as_ref().is_ok_and(Metadata::is_symlink);
        let metadata = if is_link { fs::metadata(entry.path()) } else { found };

        let place = metadata
            .as_ref()
            .map_or(Place::Inside, |metadata| self.boundary.place(&entry.path(), metadata, is_link));
        Entry { name, is_link, metadata, place }
    }
}

impl Reading {
    fn unreadable(folder: &Folder, problem: String) -> Reading {
        let mut reading = Reading::default();
        reading.add_unreadable(folder.path.clone(), true, problem);
        reading
    }

    fn add_unreadable(&mut self, path: Box<[u8]>, is_folder: bool, problem: String) {
        self.found.unreadable.push(Unreadable { path, is_folder, problem });
    }

    /// Adds an entry of a folder as a file, a folder to read, a skipped name or a warning.
    fn add(&mut self, folder: &Folder, entry: &Entry, walk: &Walk<'_>) {
        let path = join(&folder.path, &entry.name);

        // Rules should be applied before we report any errors. For example, some editors use dangling symlinks as lock files,
        // and there is a rule that skips these.
        let is_folder = entry.metadata.as_ref().is_ok_and(Metadata::is_dir);
        if let Some(reason) = walk.rules.verdict(&path, is_folder) {
            self.found.skipped.push(Skipped { path, is_folder, reason });
            return;
        }

        let metadata = match &entry.metadata {
            Ok(metadata) => metadata,
            // The file was removed after we had listed its folder.
            Err(error) if !entry.is_link && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.add_unresolved(path, entry, error),
        };

        let leaving = match &entry.place {
            Place::Above => {
                let message = "this leads to a folder that contains the source folder, and is left out; link to a folder beside it";
                return self.warn(&path, "symlink-loop", message.to_owned());
            }
            Place::Kernel => {
                let message = "this leads into a file system of the kernel, such as `/proc`, and is left out; copy the content into \
                               the folder";
                return self.leave_out(path, "kernel-file", message.to_owned());
            }
            // The link that led out of the root has already been reported, so there is no need to report links that stay
            // below its target.
            Place::Outside(target)
                if folder.outside.as_ref().is_some_and(|known| target.starts_with(known)) =>
            {
                None
            }
            Place::Outside(target) => Some(target),
            Place::Inside => None,
        };
        if let Some(target) = leaving
            && (metadata.is_file() || metadata.is_dir())
        {
            let target = target.display();
            if walk.boundary.links_out() == LinksOut::LeftOut {
                let message = format!(
                    "this symlink leads out of the source folder, to {target}, and is left out; `--follow-links` publishes the \
                     targets of such links"
                );
                return self.leave_out(path, OUTSIDE, message);
            }

            let message = format!(
                "this symlink leads out of the source folder, to {target}, which is published; leave it out with `--ignore`, \
                 or allow it with `--follow-links`"
            );
            self.warn(&path, OUTSIDE, message);
        }

        // At this point we know that the entry may be used, so we need to look at its type.
        if metadata.is_file()
            && let Some(reason) = walk.rules.verdict_of_length(&path, metadata.len())
        {
            self.found.skipped.push(Skipped { path, is_folder, reason });
        } else if metadata.is_file() {
            if may_be_sparse(metadata) {
                self.found.thin.push(path.clone());
            }
            self.found.files.push(SourceFile { path, stamp: FileStamp::of(metadata) });
        } else if !metadata.is_dir() {
            let message = format!("{} cannot be served and is left out", kind_of(metadata));
            self.leave_out(path, "not-a-file", message);
        } else if folder.lineage.contains(metadata) {
            let message = "this symlink leads back to a folder above it and is left out; remove it to silence this warning";
            self.warn(&path, "symlink-loop", message.to_owned());
        } else {
            let links = folder.links + u32::from(entry.is_link);
            let outside = leaving.or(folder.outside.as_ref()).cloned();
            self.subfolders.push(Folder { lineage: folder.lineage.child(metadata), path, links, outside });
        }
    }

    fn add_unresolved(&mut self, path: Box<[u8]>, entry: &Entry, error: &io::Error) {
        if entry.is_link && error.kind() != io::ErrorKind::PermissionDenied {
            let message =
                format!("this symlink cannot be resolved and is left out; fix or remove it: {error}");
            self.leave_out(path, "broken-symlink", message);
        } else if entry.is_link {
            let problem = format!(
                "is a symlink whose target cannot be examined ({error}); make the folders of the target accessible for this user, or \
                 name the symlink in `.canneryignore`"
            );
            self.add_unreadable(path, false, problem);
        } else {
            let problem = format!(
                "cannot be examined ({error}); make its folder searchable for this user, or name it in `.canneryignore`"
            );
            self.add_unreadable(path, false, problem);
        }
    }

    /// Leaves out a name that may be a file, with a warning.
    fn leave_out(&mut self, path: Box<[u8]>, code: &'static str, message: String) {
        self.warn(&path, code, message);
        self.found.unusable.push(path);
    }

    fn warn(&mut self, path: &[u8], code: &'static str, message: String) {
        let shown: &[u8] = if path.is_empty() { b"." } else { path };
        self.found.diagnostics.push(Diagnostic::warning(shown, code, message));
    }
}

fn join(folder: &[u8], name: &[u8]) -> Box<[u8]> {
    if folder.is_empty() { name.into() } else { [folder, b"/", name].concat().into_boxed_slice() }
}

#[cfg(test)]
mod tests;
